package supportbundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
)

// maxLog is how much of a log is taken: a file of the bundle has room for more, as what stands for a
// secret can be longer than it.
const maxLog = maxFile / 4 * 3

// journalLines is how many lines of the journal are taken, and journalUnits the services they are of.
const (
	journalLines = "50000"
	journalUnits = "a4s*"
)

// machine is where logs and files are; tests replace it.
type machine struct {
	// journal writes the newest lines of the journal.
	journal func(ctx context.Context, to io.Writer) error
	// files say what machine this is.
	files []string
}

func thisMachine() machine {
	return machine{journal: readJournal, files: []string{"/etc/os-release", "/proc/version", "/proc/meminfo",
		"/proc/loadavg", "/proc/uptime"}}
}

func readJournal(ctx context.Context, to io.Writer) error {
	path, err := exec.LookPath("journalctl")
	if err != nil {
		return errors.New("there is no journalctl")
	}
	c := exec.CommandContext(ctx, path, "--unit="+journalUnits, "--lines="+journalLines, "--no-pager",
		"--output=short-iso-precise", "--quiet")
	c.Stdout = to
	if err := c.Run(); err != nil {
		return fmt.Errorf("journalctl: %w", err)
	}
	return nil
}

// logs takes the ends of the logs.
func (m machine) logs(ctx context.Context, a *archive, l *config.Local) {
	if l.LogFile != "" {
		addLog(a, "logs/a4s.log", l.LogFile)
	}
	end := &tail{most: maxLog}
	switch err := m.journal(ctx, end); {
	case err != nil:
		a.omit("logs/journal.log: %v", err)
	case len(end.data) == 0:
		a.omit("logs/journal.log: the journal has nothing of the services %s, or is not for this user", journalUnits)
	}
	a.addLog("logs/journal.log", end)
	addLog(a, "logs/containerd.log", filepath.Join(l.DataDir, "agent", "containerd", "containerd.log"))
	for _, file := range m.files {
		data, err := os.ReadFile(file)
		if err != nil {
			a.omit("machine/%s: %v", filepath.Base(file), problem.WithoutPath(err))
			continue
		}
		a.add("machine/"+filepath.Base(file)+".txt", data)
	}
}

// addLog takes the end of a file.
func addLog(a *archive, name, file string) {
	f, err := os.Open(file)
	if err != nil {
		a.omit("%s: %s: %v", name, file, problem.WithoutPath(err))
		return
	}
	defer f.Close()
	end := &tail{most: maxLog}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		a.omit("%s: %s: it is not a regular file", name, file)
		return
	} else if more := info.Size() - maxLog; more > 0 {
		if _, err := f.Seek(more, io.SeekStart); err != nil {
			a.omit("%s: %s: %v", name, file, problem.WithoutPath(err))
			return
		}
		end.cut = more
	}
	if _, err := io.Copy(end, io.LimitReader(f, maxLog)); err != nil {
		a.omit("%s: %s: %v", name, file, problem.WithoutPath(err))
	}
	a.addLog(name, end)
}

// addLog takes the end of a log, from the beginning of a line.
func (a *archive) addLog(name string, end *tail) {
	data := end.data
	if over := len(data) - end.most; over > 0 {
		data, end.cut = data[over:], end.cut+int64(over)
	}
	if end.cut > 0 {
		a.omit("%s: the oldest %d bytes", name, end.cut)
		data = data[firstLine(data):]
	}
	a.add(name, []byte(a.scrub.log(string(data))))
}

// firstLine is where the first whole line begins.
func firstLine(data []byte) int {
	for i, c := range data {
		if c == '\n' {
			return i + 1
		}
	}
	return 0
}

// tail keeps the end of what is written.
type tail struct {
	most int
	data []byte
	cut  int64
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	t.data = append(t.data, p...)
	if over := len(t.data) - t.most; over > t.most || over > 0 && n >= t.most {
		t.data = append(t.data[:0], t.data[over:]...) // now and then, as it moves all that is kept
		t.cut += int64(over)
	}
	return n, nil
}
