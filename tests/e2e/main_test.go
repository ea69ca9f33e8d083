package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"github.com/a4s-io/a4s/tests/hosts"
)

// The images that hosts import. Neither exists in any registry.
const (
	testboxImage = "docker.io/a4s/testbox:1"
	busyboxImage = "docker.io/a4s/busybox:1"
)

// suite is what all tests share. TestMain fills it before any of them runs.
type suite struct {
	lab *hosts.Lab
	// binary is a4s, testbox the program of testboxImage for use in a host.
	binary, testbox string
	// images are the archives to put into agent/images.
	images []string

	etcd sync.Mutex // held by who uses the ports of etcd

	sharedOnce sync.Once
	shared     *cluster
	sharedErr  error
}

var env suite

func TestMain(m *testing.M) {
	hosts.Init()
	flag.Parse()
	if testing.Short() {
		fmt.Println("end-to-end tests are not short")
		return
	}
	// What client-go says about a killed server is noise here.
	klog.LogToStderr(false)
	klog.SetOutput(discard{})
	code, err := runSuite(m)
	if err != nil {
		log.Print(err)
		code = 1
	}
	os.Exit(code)
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func runSuite(m *testing.M) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	binary := os.Getenv("A4S_BINARY")
	if binary == "" {
		binary = filepath.Join("..", "..", "bin", "a4s")
	}
	var err error
	if env.binary, err = filepath.Abs(binary); err != nil {
		return 0, err
	}
	if _, err := os.Stat(env.binary); err != nil {
		return 0, fmt.Errorf("A4S_BINARY: %w: build it with make", err)
	}
	if env.lab, err = hosts.NewLab(); err != nil {
		return 0, err
	}
	defer env.lab.Close()
	if err := buildImages(ctx); err != nil {
		return 0, err
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-done:
		case <-ctx.Done():
			log.Print("interrupted: removing the hosts")
			env.lab.Close()
			os.Exit(1)
		}
	}()
	return m.Run(), nil
}

// buildImages builds the images with the project's own tool, one from Go
// source and one from a Debian package.
func buildImages(ctx context.Context) error {
	started := time.Now()
	env.testbox = filepath.Join(env.lab.Dir, "testbox")
	build := exec.CommandContext(ctx, "go", "build", "-o", env.testbox, "./tests/images/testbox")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	mkimage := filepath.Join(env.lab.Dir, "mkimage")
	images := []struct {
		name string
		args []string
	}{
		{"testbox", []string{"--name", testboxImage, "--go", "./tests/images/testbox=/testbox",
			"--entrypoint", "/testbox"}},
		{"busybox", []string{"--name", busyboxImage, "--deb", "busybox-static"}},
	}
	commands := []*exec.Cmd{build, exec.CommandContext(ctx, "go", "build", "-o", mkimage, "./scripts/mkimage")}
	for _, image := range images {
		out := filepath.Join(env.lab.Dir, image.name+".tar")
		env.images = append(env.images, out)
		commands = append(commands, exec.CommandContext(ctx, mkimage, append(image.args, "--out", out)...))
	}
	for _, c := range commands {
		c.Dir = filepath.Join("..", "..")
		out, err := c.CombinedOutput()
		if err != nil {
			return errors.Join(ctx.Err(), fmt.Errorf("%s: %w\n%s", c, err, out))
		}
	}
	fmt.Printf("built the test images in %s\n", time.Since(started).Round(time.Second))
	return nil
}
