// Command hostpathplugin is /hostpathplugin of the stand-in for the image of that name,
// in the only mode that the tests run it in: a proxy. A driver of devices is part of the
// tests' program, and reaches the kubelet through a pod: who connects to the one address
// is joined with who connects to the other.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
)

func main() {
	flag.String("v", "", "the level of the log, which there is not")
	endpoint := flag.String("endpoint", "", "`address` that the kubelet connects to")
	proxy := flag.String("proxy-endpoint", "", "`address` that the driver connects to")
	flag.Parse()
	if err := run(*endpoint, *proxy); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(endpoint, proxy string) error {
	kubelet, err := listen(endpoint)
	if err != nil {
		return err
	}
	defer kubelet.Close()
	driver, err := listen(proxy)
	if err != nil {
		return err
	}
	defer driver.Close()
	for {
		a, err := kubelet.Accept()
		if err != nil {
			return err
		}
		b, err := driver.Accept()
		if err != nil {
			return err
		}
		go join(a, b)
		go join(b, a)
	}
}

// listen takes an address with its network, tcp://:PORT or unix:///PATH, or a path.
func listen(address string) (net.Listener, error) {
	network, rest, found := strings.Cut(address, "://")
	if !found {
		network, rest = "unix", address
	}
	if network == "unix" {
		// One that ended before left it.
		_ = os.Remove(rest)
	}
	return net.Listen(network, rest)
}

// join ends both connections when one side has.
func join(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	_, _ = io.Copy(to, from)
}
