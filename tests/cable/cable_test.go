package cable

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

func TestCutAndMended(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	c := New(t, listener.Addr().String())
	conn, err := net.Dial("tcp", c.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lines := bufio.NewReader(conn)
	say := func(what string) {
		t.Helper()
		if _, err := io.WriteString(conn, what+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string) {
		t.Helper()
		if got, err := lines.ReadString('\n'); err != nil || got != what+"\n" {
			t.Errorf("got %q, want %q: %v", got, what, err)
		}
	}
	say("one")
	expect("one")
	c.Cut()
	say("two")
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := lines.ReadByte(); err == nil {
		t.Error("something comes through a cable that is cut")
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	c.Mend()
	expect("two")
}
