package instance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/a4s-io/a4s/internal/problem"
)

// RunDir is the directory of sockets and of the lock.
const RunDir = "/run/a4s"

// FileName is the lock file in the run directory.
const FileName = "a4s.pid"

// ErrRunning is the cause when another process holds the lock.
var ErrRunning = errors.New("already running")

// Info is the content of the lock file.
type Info struct {
	PID     int    `json:"pid"`
	DataDir string `json:"dataDir"`
}

// How long, and how often, the lock of a process that has ended is tried for.
const orphanPatience, orphanRetry = 5 * time.Second, 20 * time.Millisecond

// Lock is the right to be the a4s of this machine.
type Lock struct{ file *os.File }

// Release gives the lock back.
func (l *Lock) Release() error { return l.file.Close() }

// File is what holds the lock. A process that inherits it has the lock, too, until
// it has ended: the next a4s waits for that.
func (l *Lock) File() *os.File { return l.file }

// Acquire takes the lock in runDir. If another process holds it, that is a
// *problem.Precondition that names it.
//
// What a4s was about to start when it was killed has the lock, too, until it has
// become that other program, and so has the node of a server. So the lock of a
// process that has ended is waited for, a moment.
func Acquire(runDir, dataDir string) (*Lock, error) {
	if err := os.MkdirAll(runDir, 0o711); err != nil {
		return nil, &problem.Precondition{What: "directory " + runDir, Err: err, Fix: "run as root on a writable /run"}
	}
	path := filepath.Join(runDir, FileName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, &problem.Precondition{What: path, Err: err, Fix: "run as root"}
	}
	if err := lock(f, runDir); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		owner := "another process"
		if info, err := Read(runDir); err == nil {
			owner = fmt.Sprintf("process %d with data directory %s", info.PID, info.DataDir)
		}
		return nil, &problem.Precondition{What: "server or agent",
			Err: fmt.Errorf("%w: %s holds %s", ErrRunning, owner, path), Fix: "stop it first"}
	}
	data, err := json.Marshal(Info{PID: os.Getpid(), DataDir: dataDir})
	if err == nil {
		err = errors.Join(f.Truncate(0), writeAt(f, append(data, '\n')))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("writing %s: %w", path, err), f.Close())
	}
	// The file stays: removing it would let two processes lock two files,
	// and killall wants to know whose run directory this was.
	return &Lock{f}, nil
}

// lock locks the file, whose content names its owner.
func lock(f *os.File, runDir string) error {
	for end := time.Now().Add(orphanPatience); ; time.Sleep(orphanRetry) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(end) {
			return err
		}
		info, readErr := Read(runDir)
		if readErr != nil || info.PID <= 0 || !errors.Is(syscall.Kill(info.PID, 0), syscall.ESRCH) {
			return err
		}
	}
}

func writeAt(f *os.File, data []byte) error {
	_, err := f.WriteAt(data, 0)
	return err
}

// Read returns what the lock file in runDir says. An absent or empty file is
// an error for which errors.Is(err, os.ErrNotExist) holds.
func Read(runDir string) (Info, error) {
	data, err := os.ReadFile(filepath.Join(runDir, FileName))
	if err != nil {
		return Info{}, err
	}
	if len(data) == 0 {
		return Info{}, fmt.Errorf("%s is empty: %w", FileName, os.ErrNotExist)
	}
	var info Info
	if err := json.Unmarshal(data, &info); err != nil {
		return Info{}, fmt.Errorf("reading %s: %w", FileName, err)
	}
	return info, nil
}
