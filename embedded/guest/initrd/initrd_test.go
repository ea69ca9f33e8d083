package initrd

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
)

// read reads archives the way a kernel does: one after the other, the last file
// of a name counts.
func read(t *testing.T, b []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	all := len(b)
	align := func() { b = b[min((alignment-(all-len(b))%alignment)%alignment, len(b)):] }
	for len(b) > 0 {
		if b[0] == 0 {
			b = b[1:]
			continue
		}
		if (all-len(b))%alignment != 0 || !bytes.HasPrefix(b, []byte("070701")) {
			t.Fatalf("no entry at %d: %q", all-len(b), b[:min(16, len(b))])
		}
		field := func(i int) int {
			n, err := strconv.ParseUint(string(b[6+8*i:14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		mode, size, nameSize := field(1), field(6), field(11)
		name := string(b[110 : 110+nameSize-1])
		b = b[110+nameSize:]
		align()
		data := string(b[:size])
		b = b[size:]
		align()
		if name != "TRAILER!!!" {
			files[name] = fmt.Sprintf("%o %s", mode, data)
		}
	}
	return files
}

func TestAssemble(t *testing.T) {
	for _, extra := range []string{"", "a", "ab", "abc"} { // every alignment
		var modules, out bytes.Buffer
		err := Write(&modules, []File{
			{Path: "lib/modules/a.ko", Mode: 0o644, Data: []byte("module" + extra)},
			{Path: "init", Mode: 0o755, Data: []byte("someone else's")},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := Assemble(&out, &modules, []byte("ours"+extra)); err != nil {
			t.Fatal(err)
		}
		got := read(t, out.Bytes())
		for name, want := range map[string]string{
			"lib": "40755 ", "lib/modules": "40755 ", "lib/modules/a.ko": "100644 module" + extra,
			"init": "100755 ours" + extra, "dev": "40755 ", "dev/console": "20600 ",
		} {
			if got[name] != want {
				t.Errorf("%s is %q, want %q", name, got[name], want)
			}
		}
	}
}

// After a compressed archive of any length the next one must be aligned.
func TestAssembleCompressed(t *testing.T) {
	for n := range 4 {
		var modules, out bytes.Buffer
		z := gzip.NewWriter(&modules)
		if err := Write(z, []File{{Path: "a", Data: bytes.Repeat([]byte("x"), n)}}); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		size := (modules.Len() + alignment - 1) / alignment * alignment
		if err := Assemble(&out, &modules, []byte("ours")); err != nil {
			t.Fatal(err)
		}
		if got := read(t, out.Bytes()[size:]); got["init"] != "100755 ours" {
			t.Errorf("after %d bytes: %q", size, got)
		}
	}
}

func TestPathsOfFiles(t *testing.T) {
	for _, p := range []string{"", "/", "a/../b", "a//b", "./a", "a/"} {
		if err := Write(io.Discard, []File{{Path: p}}); err == nil ||
			!strings.Contains(err.Error(), strconv.Quote(p)) {
			t.Errorf("%q: %v", p, err)
		}
	}
}
