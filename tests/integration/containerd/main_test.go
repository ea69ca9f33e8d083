// Package containerd_test runs the containerd child for real: images, a
// sandbox with a network, a container, and what survives the death of
// containerd and of a4s. It needs root and the built payload.
package containerd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/host"
	"github.com/a4s-io/a4s/agent/runtime/containerd"
	"github.com/a4s-io/a4s/agent/runtime/images"
	"github.com/a4s-io/a4s/embedded/payload"
	"github.com/a4s-io/a4s/internal/component"

	daemon "github.com/a4s-io/a4s/embedded/containerd"
)

// Names under which the test binary is started again.
const (
	nameContainerd = "containerd"
	nameAgent      = "a4s-test-agent"
)

func TestMain(m *testing.M) {
	var err error
	switch os.Args[0] {
	case nameContainerd:
		err = daemon.Main(context.Background(), os.Args)
	case nameAgent:
		err = agentMain(os.Args[1])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// dirs is what a node of this test is made of.
type dirs struct {
	Data, State string
	// Runc runs in place of the carried one, if it is set.
	Runc string
}

func (d dirs) socket() string { return containerd.Socket(d.State) }

func (d dirs) options() (containerd.Options, error) {
	carried, err := payload.Extract(context.Background(), d.Data)
	if err != nil {
		return containerd.Options{}, err
	}
	info, err := host.Probe()
	if err != nil {
		return containerd.Options{}, err
	}
	runc := carried.RuncPath
	if d.Runc != "" {
		runc = d.Runc
	}
	return containerd.Options{
		DataDir:    d.Data,
		StateDir:   d.State,
		ShimPath:   carried.ShimPath,
		RuncPath:   runc,
		CNIBinDir:  carried.CNIBinDir,
		PauseImage: pauseImage,
		Host:       info,
	}, nil
}

func (d dirs) importImages(ctx context.Context, log *logrus.Entry) error {
	_, err := d.importAndFollow(ctx, log)
	return err
}

// importAndFollow returns what imports the images that come later, and pulls what lists name.
func (d dirs) importAndFollow(ctx context.Context, log *logrus.Entry) (component.Component, error) {
	carried, err := payload.Extract(ctx, d.Data)
	if err != nil {
		return component.Component{}, err
	}
	return images.Import(ctx, images.Options{
		Socket:      d.socket(),
		Snapshotter: "overlayfs",
		Required:    []string{carried.PauseImageTar},
		Dir:         images.Dir(d.Data),
		StateFile:   images.StateFile(d.Data),
		Log:         log,
	})
}

// agentMain is a process that supervises containerd until it is killed. It
// says "ready" when containerd is.
func agentMain(encoded string) error {
	var d dirs
	if err := json.Unmarshal([]byte(encoded), &d); err != nil {
		return err
	}
	o, err := d.options()
	if err != nil {
		return err
	}
	group := component.NewGroup(logrus.WithField("test", "agent"))
	if err := group.StartAndWait(context.Background(), containerd.New(o)); err != nil {
		return err
	}
	fmt.Println("ready")
	select {}
}
