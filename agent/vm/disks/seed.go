package disks

import (
	"encoding/binary"
	"os"
	"strings"
	"unicode/utf16"
)

// Seed is what cloud-init in a disk image reads at its start (the NoCloud
// source). Empty parts are left out, but for MetaData.
type Seed struct{ MetaData, UserData, NetworkConfig []byte }

// WriteSeed writes a seed as a disk image: an ISO 9660 file system labelled
// cidata.
func WriteSeed(path string, s Seed) error {
	files := []isoFile{{"meta-data", s.MetaData}}
	if len(s.UserData) > 0 {
		files = append(files, isoFile{"user-data", s.UserData})
	}
	if len(s.NetworkConfig) > 0 {
		files = append(files, isoFile{"network-config", s.NetworkConfig})
	}
	return os.WriteFile(path, iso("cidata", files), 0o600) // user data holds passwords
}

// isoFile is a file in the root directory of a file system.
type isoFile struct {
	name    string
	content []byte
}

// Where things are, in sectors.
const (
	sector = 2048

	isoPrimary = 16 + iota - 1
	isoJoliet
	isoEnd
	isoPathTables // little and big endian, of both trees
	_
	_
	_
	isoRoot // directories of both trees
	isoJolietRoot
	isoContent
)

// iso returns an ISO 9660 file system with a few files in its root directory,
// whose names Joliet tells in full.
func iso(label string, files []isoFile) []byte {
	starts := make([]int, len(files))
	end := isoContent
	for i, f := range files {
		starts[i] = end
		end += (len(f.content) + sector - 1) / sector
	}
	out := make([]byte, end*sector)
	at := func(n int) []byte { return out[n*sector : (n+1)*sector] }
	for i, f := range files {
		copy(out[starts[i]*sector:], f.content)
	}
	for _, tree := range []struct {
		volume, paths, root int
		kind                byte
		text                func(string) []byte
		name                func(string) []byte
	}{
		// Names of the first tree are for readers that know no Joliet.
		{isoPrimary, isoPathTables, isoRoot, 1, func(s string) []byte { return []byte(s) },
			func(s string) []byte { return []byte(strings.ToUpper(s) + ".;1") }},
		{isoJoliet, isoPathTables + 2, isoJolietRoot, 2, ucs2, func(s string) []byte { return ucs2(s + ";1") }},
	} {
		root := func(name byte) []byte { return isoRecord(tree.root, sector, true, []byte{name}) }
		dir := at(tree.root)[:0]
		dir = append(append(dir, root(0)...), root(1)...) // itself, and what is above: itself
		for i, f := range files {
			dir = append(dir, isoRecord(starts[i], len(f.content), false, tree.name(f.name))...)
		}
		path := []byte{1, 0, 0, 0, 0, 0, 1, 0, 0, 0}
		binary.LittleEndian.PutUint32(path[2:], uint32(tree.root))
		copy(at(tree.paths), path)
		path = []byte{1, 0, 0, 0, 0, 0, 0, 1, 0, 0}
		binary.BigEndian.PutUint32(path[2:], uint32(tree.root))
		copy(at(tree.paths+1), path)

		v := at(tree.volume)
		v[0], v[6], v[881] = tree.kind, 1, 1
		copy(v[1:], "CD001")
		blank(v[8:72], tree.text(" "))
		blank(v[40:72], tree.text(" "))
		copy(v[40:72], tree.text(label))
		both32(v[80:], end)
		if tree.kind == 2 {
			copy(v[88:], "%/E") // UCS-2, level 3
		}
		both16(v[120:], 1) // volumes in the set
		both16(v[124:], 1) // this is the first
		both16(v[128:], sector)
		both32(v[132:], len(path))
		binary.LittleEndian.PutUint32(v[140:], uint32(tree.paths))
		binary.BigEndian.PutUint32(v[148:], uint32(tree.paths+1))
		copy(v[156:], root(0))
		blank(v[190:813], tree.text(" "))
		for i := range 4 { // times that are not told
			copy(v[813+17*i:], "0000000000000000\x00")
		}
	}
	e := at(isoEnd)
	e[0], e[6] = 255, 1
	copy(e[1:], "CD001")
	return out
}

// isoRecord is an entry of a directory.
func isoRecord(start, size int, dir bool, name []byte) []byte {
	length := (33 + len(name) + 1) &^ 1
	r := make([]byte, length)
	r[0] = byte(length)
	both32(r[2:], start)
	both32(r[10:], size)
	copy(r[18:], []byte{100, 1, 1}) // 1 January 2000
	if dir {
		r[25] = 2
	}
	both16(r[28:], 1)
	r[32] = byte(len(name))
	copy(r[33:], name)
	return r
}

// both32 and both16 write a number in both byte orders.
func both32(b []byte, n int) {
	binary.LittleEndian.PutUint32(b, uint32(n))
	binary.BigEndian.PutUint32(b[4:], uint32(n))
}

func both16(b []byte, n int) {
	binary.LittleEndian.PutUint16(b, uint16(n))
	binary.BigEndian.PutUint16(b[2:], uint16(n))
}

func ucs2(s string) []byte {
	var out []byte
	for _, u := range utf16.Encode([]rune(s)) {
		out = binary.BigEndian.AppendUint16(out, u)
	}
	return out
}

func blank(b, with []byte) {
	for i := 0; i+len(with) <= len(b); i += len(with) {
		copy(b[i:], with)
	}
}
