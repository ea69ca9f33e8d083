package objectfile_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a4s-io/a4s/agent/origin/objectfile"
)

func TestPendingFilesAreWrittenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := objectfile.NewPending[string]()
		ctx, end := context.WithCancel(t.Context())
		var written []string
		began := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.Run(ctx, func(f string) { written = append(written, f+" "+time.Since(began).String()) })
		}()
		p.Mark("slow", 5*time.Second)
		p.Mark("soon", time.Second)
		p.Mark("slow", 10*time.Second) // it is not put off
		p.Mark("gone", 2*time.Second)
		p.Forget(func(f string) bool { return f == "gone" })
		time.Sleep(7 * time.Second)
		p.Mark("rest", time.Hour)
		synctest.Wait()
		end()
		<-done
		if want := []string{"soon 1s", "slow 5s", "rest 7s"}; !slices.Equal(written, want) {
			t.Errorf("%v, want %v", written, want)
		}
	})
}
