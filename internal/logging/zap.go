package logging

import (
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/zap/zapcore"
)

// zapCore is a zapcore.Core that writes to logrus.
type zapCore struct {
	entry *logrus.Entry
	info  logrus.Level
	made  time.Time
}

// start is how long a datastore can take to write what it looks for.
const start = 2 * time.Minute

func (c *zapCore) level(l zapcore.Level) logrus.Level {
	switch {
	case l >= zapcore.ErrorLevel:
		// DPanic, Panic and Fatal included: zap itself acts on them, the
		// line must not make logrus end the process as well.
		return logrus.ErrorLevel
	case l == zapcore.WarnLevel:
		return logrus.WarnLevel
	case l == zapcore.InfoLevel:
		return c.info
	default:
		return logrus.TraceLevel
	}
}

// Enabled implements zapcore.LevelEnabler.
func (c *zapCore) Enabled(l zapcore.Level) bool {
	return c.entry.Logger.IsLevelEnabled(c.level(l))
}

// With implements zapcore.Core.
func (c *zapCore) With(fields []zapcore.Field) zapcore.Core {
	return &zapCore{entry: c.entry.WithFields(encode(fields)), info: c.info, made: c.made}
}

// Check implements zapcore.Core.
func (c *zapCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c *zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	values := encode(fields)
	level := c.level(e.Level)
	if e.Time.Sub(c.made) < start && isStart(e.Message, values) {
		level = logrus.DebugLevel
	}
	c.entry.WithFields(values).Log(level, e.Message)
	return nil
}

// isStart reports whether etcd says that something is wrong while it only starts: it looks every
// few seconds for the version of its files, which a new one on a busy machine has not written yet.
func isStart(message string, values logrus.Fields) bool {
	switch message {
	case "Failed to detect schema version", "failed to update storage version":
		text, _ := values["error"].(string)
		return strings.HasSuffix(text, "missing term information")
	}
	return false
}

// Sync implements zapcore.Core.
func (c *zapCore) Sync() error { return nil }

func encode(fields []zapcore.Field) logrus.Fields {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	return enc.Fields
}
