package etcd

import "testing"

func TestPercentOfTheRoom(t *testing.T) {
	for room, want := range map[Room]int64{
		{}:                                 0,
		{Size: 5}:                          0,
		{Size: 80, Quota: 100}:             80,
		{Size: 1 << 62, Quota: 1<<63 - 1}:  50,
		{Size: 4 << 30, Quota: 4 << 30}:    100,
		{Size: 799, Quota: 1000, InUse: 1}: 79,
	} {
		if got := room.Percent(); got != want {
			t.Errorf("%+v is full to %d percent, want %d", room, got, want)
		}
	}
}
