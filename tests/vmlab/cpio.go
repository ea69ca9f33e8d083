package vmlab

import (
	"bytes"
	"fmt"
	"io"
)

// The kinds of files in an archive.
const (
	modeDir  = 0o040000
	modeFile = 0o100000
)

// archive writes the cpio format that the kernel reads ("newc").
type archive struct {
	w     io.Writer
	inode int
	err   error
}

func (a *archive) add(name string, mode int, data []byte) {
	if a.err != nil {
		return
	}
	a.inode++
	var b bytes.Buffer
	fmt.Fprintf(&b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name)
	pad(&b)
	b.Write(data)
	pad(&b)
	_, a.err = a.w.Write(b.Bytes())
}

func pad(b *bytes.Buffer) {
	for b.Len()%4 != 0 {
		b.WriteByte(0)
	}
}
