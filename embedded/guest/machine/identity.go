//go:build linux

package machine

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/embedded/guest/protocol"
	"github.com/a4s-io/a4s/embedded/guest/server"
)

// identity is who a process runs as.
type identity struct {
	uid, gid   uint32
	additional []uint32
	home       string
}

func (i identity) groups() []uint32 {
	groups := []uint32{i.gid}
	for _, g := range i.additional {
		if !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	return groups
}

// resolveUser finds out who is meant, by the files of the container.
func resolveUser(u protocol.User) (identity, error) {
	passwd, err := readDatabase("/etc/passwd")
	if err != nil {
		return identity{}, err
	}
	group, err := readDatabase("/etc/group")
	if err != nil {
		return identity{}, err
	}
	return whoIs(u, passwd, group)
}

// readDatabase reads a file of lines of fields. One that is missing is empty.
func readDatabase(path string) ([][]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		// A file that is a directory or a loop of links says nothing either.
		return nil, nil
	}
	var lines [][]string
	for line := range strings.Lines(string(data)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) >= 3 {
			lines = append(lines, f)
		}
	}
	return lines, nil
}

func whoIs(u protocol.User, passwd, group [][]string) (identity, error) {
	userName, groupName, hasGroup := strings.Cut(u.Name, ":")
	who := identity{home: "/"}
	if userName == "" {
		userName = "0"
	}
	login := ""
	// A name first: it may consist of digits.
	for _, byName := range []bool{true, false} {
		for _, f := range passwd {
			if len(f) < 4 || login != "" {
				continue
			}
			if byName && f[0] == userName || !byName && f[2] == userName {
				uid, err1 := strconv.ParseUint(f[2], 10, 32)
				gid, err2 := strconv.ParseUint(f[3], 10, 32)
				if err1 != nil || err2 != nil {
					continue
				}
				who.uid, who.gid, login = uint32(uid), uint32(gid), f[0]
				if len(f) >= 6 && f[5] != "" {
					who.home = f[5]
				}
			}
		}
	}
	if login == "" {
		uid, err := strconv.ParseUint(userName, 10, 31)
		if err != nil {
			return who, server.Errorf(protocol.CodeInvalid, "no user %q in the container's /etc/passwd", userName)
		}
		who.uid = uint32(uid)
		if uid == 0 {
			who.home = "/root"
		}
	}
	if hasGroup && groupName != "" {
		gid, err := groupID(groupName, group)
		if err != nil {
			return who, err
		}
		who.gid = gid
	}
	if u.Group != nil {
		who.gid = *u.Group
	}
	if login != "" && !u.Strict {
		for _, f := range group {
			if len(f) >= 4 && slices.Contains(strings.Split(f[3], ","), login) {
				if gid, err := strconv.ParseUint(f[2], 10, 32); err == nil {
					who.additional = append(who.additional, uint32(gid))
				}
			}
		}
	}
	who.additional = append(who.additional, u.Groups...)
	return who, nil
}

func groupID(name string, group [][]string) (uint32, error) {
	for _, f := range group {
		if f[0] == name {
			if gid, err := strconv.ParseUint(f[2], 10, 32); err == nil {
				return uint32(gid), nil
			}
		}
	}
	gid, err := strconv.ParseUint(name, 10, 31)
	if err != nil {
		return 0, server.Errorf(protocol.CodeInvalid, "no group %q in the container's /etc/group", name)
	}
	return uint32(gid), nil
}

// The limits of open files that processes have by default.
const (
	defaultFilesSoft = 1024
	defaultFilesHard = 524288
)

var rlimits = map[string]int{
	"RLIMIT_CPU": unix.RLIMIT_CPU, "RLIMIT_FSIZE": unix.RLIMIT_FSIZE, "RLIMIT_DATA": unix.RLIMIT_DATA,
	"RLIMIT_STACK": unix.RLIMIT_STACK, "RLIMIT_CORE": unix.RLIMIT_CORE, "RLIMIT_RSS": unix.RLIMIT_RSS,
	"RLIMIT_NPROC": unix.RLIMIT_NPROC, "RLIMIT_NOFILE": unix.RLIMIT_NOFILE, "RLIMIT_MEMLOCK": unix.RLIMIT_MEMLOCK,
	"RLIMIT_AS": unix.RLIMIT_AS, "RLIMIT_LOCKS": unix.RLIMIT_LOCKS, "RLIMIT_SIGPENDING": unix.RLIMIT_SIGPENDING,
	"RLIMIT_MSGQUEUE": unix.RLIMIT_MSGQUEUE, "RLIMIT_NICE": unix.RLIMIT_NICE, "RLIMIT_RTPRIO": unix.RLIMIT_RTPRIO,
	"RLIMIT_RTTIME": unix.RLIMIT_RTTIME,
}

// setLimits sets what is of the process and not of a thread.
func setLimits(p protocol.Process) error {
	limits := append([]protocol.Rlimit{{Type: "RLIMIT_NOFILE", Soft: defaultFilesSoft, Hard: defaultFilesHard}},
		p.Rlimits...)
	for _, l := range limits {
		which, ok := rlimits[l.Type]
		if !ok {
			return server.Errorf(protocol.CodeInvalid, "resource limit %q", l.Type)
		}
		// Not that of package unix: the runtime would set its own again.
		if err := syscall.Setrlimit(which, &syscall.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
			return server.Errorf(protocol.CodeInvalid, "%s=%d:%d: %w", l.Type, l.Soft, l.Hard, err)
		}
	}
	return nil
}

// setOOMScore undoes what process 1 has for itself. It needs the machine's /proc.
func setOOMScore(p protocol.Process) error {
	score := 0
	if p.OOMScoreAdj != nil {
		score = *p.OOMScoreAdj
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(score)), 0); err != nil {
		return server.Errorf(protocol.CodeInvalid, "oom_score_adj %d: %w", score, err)
	}
	return nil
}

// become gives this thread the process's groups, user and capabilities.
func become(who identity, p protocol.Process, privileged bool) error {
	caps, ambient, err := capabilitySets(p, privileged)
	if err != nil {
		return err
	}
	for c := range uint(lastCapability + 1) {
		if caps&(1<<c) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && err != unix.EINVAL {
			return fmt.Errorf("dropping capability %d: %w", c, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return err
	}
	// System calls of this thread alone: those of package unix are of all.
	groups := who.groups()
	if err := setGroups(groups); err != nil {
		return fmt.Errorf("setting groups: %w", err)
	}
	if err := call(unix.SYS_SETRESGID, uintptr(who.gid), uintptr(who.gid), uintptr(who.gid)); err != nil {
		return fmt.Errorf("setting group %d: %w", who.gid, err)
	}
	if err := call(unix.SYS_SETRESUID, uintptr(who.uid), uintptr(who.uid), uintptr(who.uid)); err != nil {
		return fmt.Errorf("setting user %d: %w", who.uid, err)
	}
	if err := setCapabilities(caps, ambient); err != nil {
		return err
	}
	if p.NoNewPrivs {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	return nil
}
