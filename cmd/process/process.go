package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
)

// notifySocket is how systemd tells a service where to report to.
const notifySocket = "NOTIFY_SOCKET"

// notifier reports to systemd, if it started us.
type notifier struct{ socket string }

// takeNotifier takes the socket out of the environment: the kubelet in this
// process would report itself as the whole service.
func takeNotifier() notifier {
	n := notifier{socket: os.Getenv(notifySocket)}
	_ = os.Unsetenv(notifySocket) // fails for an invalid name only
	return n
}

func (n notifier) notify(state string) {
	if n.socket == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(state))
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		logrus.WithError(err).Warn("Cannot report to systemd")
	}
}

// extendPath makes the tools of the node reachable under a shell or service
// manager whose PATH lacks the system directories.
func extendPath() error {
	path := os.Getenv("PATH")
	for _, dir := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin"} {
		if !slices.Contains(filepath.SplitList(path), dir) {
			path = strings.TrimPrefix(path+string(os.PathListSeparator)+dir, string(os.PathListSeparator))
		}
	}
	if err := os.Setenv("PATH", path); err != nil {
		return fmt.Errorf("setting PATH: %w", err)
	}
	return nil
}
