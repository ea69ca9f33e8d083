package logging

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/sirupsen/logrus"
	"go.uber.org/zap"
	"k8s.io/klog/v2"

	"github.com/a4s-io/a4s/internal/problem"
)

// Options says how much is logged and where.
type Options struct {
	// Debug shows debug lines of a4s and informational lines of upstream.
	Debug bool
	// Verbosity is klog's -v.
	Verbosity int
	// VModule is klog's --vmodule.
	VModule string
	// File receives the log in addition to nothing else; empty means Output.
	File string
	// Output is used when File is empty; nil means standard error.
	Output io.Writer
}

// TimestampFormat is RFC 3339 with milliseconds, in the log of every part.
const TimestampFormat = "2006-01-02T15:04:05.000Z07:00"

// Formatter is the format of every log line of a4s, the containerd child
// included.
func Formatter() logrus.Formatter {
	return &logrus.TextFormatter{FullTimestamp: true, TimestampFormat: TimestampFormat, DisableColors: true}
}

// Log is the configured log of this process.
type Log struct {
	closeOut func() error
	stopping atomic.Bool
}

// Stopping says that the process is about to end. From then on the errors of
// upstream parts, which lose each other one by one, are debug lines.
func (l *Log) Stopping() { l.stopping.Store(true) }

// Close closes the log file, if there is one.
func (l *Log) Close() error { return l.closeOut() }

// Setup configures logrus, klog and the standard logger of this process.
func Setup(o Options) (*Log, error) {
	out, closeOut, err := openOutput(o)
	if err != nil {
		return nil, err
	}
	std := logrus.StandardLogger()
	std.SetOutput(out)
	std.SetFormatter(Formatter())
	std.SetLevel(logrus.InfoLevel)
	if o.Debug || o.Verbosity > 0 {
		std.SetLevel(logrus.DebugLevel)
	}
	l := &Log{closeOut: closeOut}
	if err := setupKlog(std, o, &l.stopping); err != nil {
		return nil, err
	}
	log.SetFlags(0)
	log.SetOutput(lineWriter{std.WithField("component", "go")})
	return l, nil
}

func openOutput(o Options) (io.Writer, func() error, error) {
	nothing := func() error { return nil }
	if o.File == "" {
		if o.Output != nil {
			return o.Output, nothing, nil
		}
		return os.Stderr, nothing, nil
	}
	f, err := os.OpenFile(o.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, &problem.Input{Source: "--log", Value: o.File,
			Want: "a path in a directory that exists and can be written", Err: err}
	}
	return f, f.Close, nil
}

// upstreamInfoLevel is where informational lines of upstream code go.
func upstreamInfoLevel(o Options) logrus.Level {
	if o.Verbosity > 0 {
		return logrus.InfoLevel
	}
	return logrus.DebugLevel
}

func setupKlog(std *logrus.Logger, o Options, stopping *atomic.Bool) error {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	klog.InitFlags(fs)
	if err := fs.Set("v", strconv.Itoa(o.Verbosity)); err != nil {
		return &problem.Input{Source: "-v", Value: strconv.Itoa(o.Verbosity), Want: "a number from 0 to 10", Err: err}
	}
	if o.VModule != "" {
		if err := fs.Set("vmodule", o.VModule); err != nil {
			return &problem.Input{Source: "--vmodule", Value: o.VModule,
				Want: "pattern=level, comma separated", Err: err}
		}
	}
	sink := &logrusSink{entry: logrus.NewEntry(std), info: upstreamInfoLevel(o), stopping: stopping}
	klog.SetLoggerWithOptions(logr.New(sink), klog.ContextualLogger(true))
	// Upstream ends the process where its own binary would have nothing left
	// to do. Here that ends one component's goroutine: component.Group sees
	// it as ErrAborted and restarts the component.
	klog.OsExit = func(int) { runtime.Goexit() }
	return nil
}

// Zap returns a zap logger for etcd that ends in logrus.
func Zap(o Options) *zap.Logger {
	entry := logrus.WithField("component", "etcd")
	return zap.New(&zapCore{entry: entry, info: upstreamInfoLevel(o), made: time.Now()})
}

// lineWriter logs each write of the standard logger at debug level: what it
// carries here are TLS handshake errors of strangers and the like.
type lineWriter struct{ entry *logrus.Entry }

func (w lineWriter) Write(p []byte) (int, error) {
	w.entry.Debug(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// logrusSink is a logr.LogSink that writes to logrus.
type logrusSink struct {
	entry *logrus.Entry
	info  logrus.Level
	name  string
	// values are names and values in turn. They are formatted when something is
	// printed: upstream gives a logger values for each pod and prints little.
	values []any

	stopping *atomic.Bool
}

// Init implements logr.LogSink.
func (s *logrusSink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink. klog has already applied -v.
func (s *logrusSink) Enabled(int) bool { return s.entry.Logger.IsLevelEnabled(s.info) }

// Info implements logr.LogSink.
func (s *logrusSink) Info(_ int, msg string, kv ...any) {
	s.with(kv).Log(s.info, strings.TrimRight(msg, "\n"))
}

// Error implements logr.LogSink.
func (s *logrusSink) Error(err error, msg string, kv ...any) {
	e := s.with(kv)
	if err != nil {
		e = e.WithError(err)
	}
	msg = strings.TrimRight(msg, "\n")
	level := errorLevel(err, msg)
	if s.stopping.Load() {
		level = logrus.DebugLevel
	}
	e.Log(level, msg)
}

// errorLevel demotes what upstream logs as an error although nothing is wrong:
// requests that were cancelled because their owner stops, streams that the
// other side ended, and the messages in harmless.
func errorLevel(err error, msg string) logrus.Level {
	if errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) {
		return logrus.DebugLevel
	}
	if err != nil && isSecondRange(err.Error(), msg) {
		return logrus.DebugLevel
	}
	for _, h := range harmlessErrors {
		if err != nil && msg == h.msg && strings.Contains(err.Error(), h.of) {
			return logrus.DebugLevel
		}
	}
	for _, h := range harmless {
		if strings.HasPrefix(msg, h) {
			return logrus.DebugLevel
		}
	}
	return logrus.ErrorLevel
}

// harmlessErrors are upstream messages whose errors say that something comes a moment later.
var harmlessErrors = [...]struct{ msg, of string }{
	{"Unhandled Error", staleCache},
	// The API server makes this Service while it looks for the first time which addresses are given out.
	{"Unhandled Error", "for Service default/kubernetes is not allocated; repairing"},
	// A file among the kubelet's records of images that is none on purpose.
	{"Error migrating image pulled records", notARecord},
	{"there were errors listing ImagePulledRecords, garbage collection will proceed with incomplete records list",
		notARecord},
	// The authorizer hears later than the kubelet that a pod is on its node; the kubelet tries again.
	{"Failed to get status for pod", "no relationship found between node"},
}

// harmless are beginnings of upstream messages of the error level that every
// normal start prints.
var harmless = [...]string{
	// The static admission manifests, which a4s does not use.
	"The manifest file is empty, ignoring",
	// The API server waits for the namespace that it is about to make.
	"Failed to ensure lease exists, will retry",
	"Error while syncing ConfigMap",
	// A watch whose client has left before the first list was through: the error is in the
	// text, where errors.Is does not see it.
	"failed to sync with latest state: context canceled",
	// The kubelet before its first look at image file system, cgroups and node.
	"Failed to get the info of the filesystem with mountpoint",
	"invalid capacity 0 on image filesystem",
	"Eviction manager: failed to get summary stats",
	"Skipping pod synchronization",
	"Unable to register mirror pod because node is not registered yet",
	"Error getting the current node from lister",
	"Image garbage collection failed once. Stats initialization may not have completed yet",
	"Failed to get node when trying to set owner ref to the node lease",
	"Failed to read data from checkpoint",
	"eviction manager: failed to check if we have separate container filesystem",
	// A machine that hides the namespaces of its init process.
	"Failed to ensure process in container with oom score",
	// The kubelet on a machine with cgroup v1 whose processes are not in one group: only
	// what it says of itself lacks.
	"Failed to find cgroups of kubelet",
	// The kubelet before it sees the Node that it has made; when all tries have failed it
	// says "Unable to update node status".
	"Error updating node status, will retry",
	// The same before there is the Node; when all tries have failed the kubelet ends.
	"Failed to initialize CSINode: ",
	// kube-proxy's nftables before its first sync.
	"Failed to list existing sets",
	"Failed to list existing chains",
}

// notARecord is the name of a file of RecordPreloaded in agent/kubelet.
const notARecord = "sha256-not-a-record-of-a4s"

// staleCache is why a controller looks at an object again: its cache does not show yet what it wrote
// itself a moment ago.
const staleCache = "is not as new as written version:"

// secondRange is why the API refuses a second range for a node. On a busy machine the controller
// of ranges gives one before it sees in its cache that it gave one already; it then looks again.
const secondRange = "a node of this cluster has 1, not 2"

func isSecondRange(err, msg string) bool {
	switch {
	case !strings.Contains(err, "failed to patch node CIDR") || !strings.Contains(err, secondRange):
		return false
	case msg == "Failed to update node PodCIDR after multiple attempts",
		msg == "CIDR assignment for node failed. Releasing allocated CIDR", msg == "Error processing node work item":
		return true
	}
	return false
}

// WithValues implements logr.LogSink.
func (s *logrusSink) WithValues(kv ...any) logr.LogSink {
	c := *s
	c.values = slices.Concat(s.values, kv)
	return &c
}

// WithName implements logr.LogSink.
func (s *logrusSink) WithName(name string) logr.LogSink {
	c := *s
	if c.name != "" {
		name = c.name + "." + name
	}
	c.name = name
	return &c
}

// with is an entry with the name and the values of the sink and more values.
func (s *logrusSink) with(kv []any) *logrus.Entry {
	if s.name == "" && len(s.values) == 0 && len(kv) == 0 {
		return s.entry
	}
	fields := make(logrus.Fields, 1+(len(s.values)+len(kv))/2)
	if s.name != "" {
		fields["logger"] = s.name
	}
	for _, list := range [][]any{s.values, kv} {
		for i := 0; i+1 < len(list); i += 2 {
			fields[fmt.Sprint(list[i])] = printable(list[i+1])
		}
	}
	return s.entry.WithFields(fields)
}

// printable keeps a lazily formatted value from being formatted by
// reflection, which could race with its owner.
func printable(v any) any {
	switch v := v.(type) {
	case fmt.Stringer:
		return safeString(v)
	case logr.Marshaler:
		return fmt.Sprintf("%+v", v.MarshalLog())
	case error, string, bool, int, int32, int64, uint, uint32, uint64, float64:
		return v
	default:
		return fmt.Sprintf("%+v", v)
	}
}

func safeString(v fmt.Stringer) (s string) {
	defer func() {
		if recover() != nil { // a nil pointer behind the interface
			s = "<nil>"
		}
	}()
	return v.String()
}
