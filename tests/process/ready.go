package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

const ready = "ready"

// StartReady starts a command and returns when it has called Ready. It ends with the test.
func StartReady(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	wait, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends with its input
		_ = wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != ready+"\n" {
		t.Fatalf("%s says %q, %v", cmd.Path, line, err)
	}
}

// Ready says in a process of StartReady that it is as the test wants it, and returns when it is to end.
func Ready() error {
	fmt.Println(ready)
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
