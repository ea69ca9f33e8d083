//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "guestbox: want a command")
		os.Exit(2)
	}
	code, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "guestbox:", err)
		code = 1
	}
	os.Exit(code)
}

func run(command string, args []string) (int, error) {
	arg := ""
	if len(args) > 0 {
		arg = args[0]
	}
	switch command {
	case "say": // on both streams, and end with a code
		fmt.Println("out:", strings.Join(args[1:], " "))
		fmt.Fprintln(os.Stderr, "err:", strings.Join(args[1:], " "))
		return strconv.Atoi(arg)
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
		return 0, nil
	case "id":
		return 0, id()
	case "flood": // numbered lines
		n, err := strconv.Atoi(arg)
		w := bufio.NewWriter(os.Stdout)
		for i := range n {
			fmt.Fprintf(w, "line %08d\n", i)
		}
		return 0, errors.Join(err, w.Flush())
	case "cat":
		if arg == "" {
			_, err := io.Copy(os.Stdout, os.Stdin)
			return 0, err
		}
		data, err := os.ReadFile(arg)
		fmt.Print(string(data))
		return 0, err
	case "write":
		return 0, os.WriteFile(arg, []byte(args[1]), 0o600)
	case "ls":
		entries, err := os.ReadDir(arg)
		for _, e := range entries {
			fmt.Println(e.Name())
		}
		return 0, err
	case "net":
		return 0, network()
	case "term":
		return 0, terminal()
	case "trap": // a container that ends when it is asked to
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, unix.SIGTERM)
		fmt.Println("ready")
		<-signals
		return 7, nil
	case "sleep":
		time.Sleep(time.Hour)
		return 0, nil
	case "leave": // a child that outlives its parent and holds its output
		child := exec.Command("/proc/self/exe", "sleep")
		child.Stdout = os.Stdout
		fmt.Println("left")
		return 0, child.Start()
	case "eat": // MiB of memory
		n, err := strconv.Atoi(arg)
		var all [][]byte
		for range n {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			all = append(all, b)
		}
		fmt.Println("ate", len(all))
		return 0, err
	case "serve": // one line back on a port
		return 0, serve(arg)
	}
	return 2, fmt.Errorf("unknown command %q", command)
}

// id prints who the process is.
func id() error {
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &files); err != nil {
		return err
	}
	fmt.Printf("uid=%d gid=%d groups=%v host=%s dir=%s pid=%d core=%d\n", os.Getuid(), os.Getgid(), groups, host, dir,
		os.Getpid(), files.Max)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "Cap") || strings.HasPrefix(line, "NoNewPrivs") {
			fmt.Print(line)
		}
	}
	return nil
}

// network prints interfaces, addresses and routes.
func network() error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range all {
		addresses, err := i.Addrs()
		if err != nil {
			return err
		}
		fmt.Printf("%s %s %d ", i.Name, map[bool]string{true: "up"}[i.Flags&net.FlagUp != 0], i.MTU)
		for _, a := range addresses {
			fmt.Print(a, " ")
		}
		fmt.Println()
	}
	for _, name := range []string{"/proc/net/route", "/proc/net/ipv6_route"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Print(string(data))
	}
	return nil
}

// terminal says what its terminal is, answers a line, and says when its size
// has changed.
func terminal() error {
	size := func() (string, error) {
		ws, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%dx%d", ws.Col, ws.Row), nil
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, unix.SIGWINCH)
	s, err := size()
	if err != nil {
		return err
	}
	name, err := os.Readlink("/proc/self/fd/0")
	if err != nil {
		return err
	}
	fmt.Printf("terminal %s of %s\n", name, s)
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	fmt.Printf("got %q\n", strings.TrimSpace(line))
	<-changed
	if s, err = size(); err != nil {
		return err
	}
	fmt.Println("now", s)
	return nil
}

func serve(port string) error {
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		data, err := io.ReadAll(c)
		if err == nil {
			_, err = fmt.Fprintf(c, "you said %q", data)
		}
		if err := errors.Join(err, c.Close()); err != nil {
			return err
		}
	}
}
