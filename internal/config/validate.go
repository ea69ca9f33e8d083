package config

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/problem"
)

// checker collects the mistakes of one configuration.
type checker struct {
	source func(setting string) string
	errs   []error
}

func badInput(source, value, want string) error {
	return &problem.Input{Source: source, Value: value, Want: want}
}

func (c *checker) bad(setting, value, want string) {
	c.errs = append(c.errs, badInput(c.source(setting), value, want))
}

func (c *checker) fail(setting, value string, err error, want string) {
	c.errs = append(c.errs, &problem.Input{Source: c.source(setting), Value: value, Err: err, Want: want})
}

func (c *checker) err() error {
	if len(c.errs) == 1 {
		return c.errs[0]
	}
	return errors.Join(c.errs...)
}

var errIPv6 = errors.New("IPv6 is not supported yet")

// addr checks an IPv4 address and returns it. A nodeAddr is one that a peer
// can reach, so it is none of the special ones.
func (c *checker) addr(setting, value string, nodeAddr bool) (netip.Addr, bool) {
	const want = "an IPv4 address such as 192.0.2.10"
	a, err := netip.ParseAddr(value)
	switch {
	case err != nil:
		c.bad(setting, value, want)
	case !a.Is4():
		c.fail(setting, value, errIPv6, want)
	case nodeAddr &&
		(a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})):
		c.bad(setting, value,
			"the address of an interface that other nodes can reach, not a loopback, unspecified or multicast address")
	default:
		return a, true
	}
	return netip.Addr{}, false
}

// cidr checks an IPv4 range whose prefix is minBits to maxBits long.
func (c *checker) cidr(setting, value, example string, minBits, maxBits int) (netip.Prefix, bool) {
	want := "an IPv4 range such as " + example
	p, err := netip.ParsePrefix(value)
	switch {
	case strings.Contains(value, ","):
		c.fail(setting, value, errors.New("more than one range"), want)
	case err != nil:
		c.bad(setting, value, want)
	case !p.Addr().Is4():
		c.fail(setting, value, errIPv6, want)
	case p != p.Masked():
		c.fail(setting, value, errors.New("address bits behind the prefix"), p.Masked().String())
	case p.Bits() < minBits || p.Bits() > maxBits:
		c.bad(setting, value, fmt.Sprintf("a prefix length from /%d to /%d", minBits, maxBits))
	default:
		return p, true
	}
	return netip.Prefix{}, false
}

func (c *checker) port(setting string, value int) {
	if value < 1 || value > 65535 {
		c.bad(setting, strconv.Itoa(value), "a port from 1 to 65535")
	}
}

func (c *checker) oneOf(setting, value string, valid []string) {
	if !slices.Contains(valid, value) {
		c.bad(setting, value, "one of "+strings.Join(valid, ", "))
	}
}

// absolute checks that value is an absolute path. An empty value is fine.
func (c *checker) absolute(setting, value string) {
	if value != "" && !filepath.IsAbs(value) {
		c.bad(setting, value, "an absolute path")
	}
}

// file checks that value is a file that can be read. An empty value is fine.
func (c *checker) file(setting, value string) {
	if value == "" {
		return
	}
	f, err := os.Open(value)
	if err == nil {
		var info os.FileInfo
		info, err = f.Stat()
		if err == nil && info.IsDir() {
			err = errors.New("it is a directory")
		}
		f.Close()
	}
	if err != nil {
		c.fail(setting, value, problem.WithoutPath(err), "a file that can be read")
	}
}

var argName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

// upstreamArgs checks arguments for an upstream component.
func (c *checker) upstreamArgs(setting string, args []string) {
	for _, arg := range args {
		name, _, ok := strings.Cut(arg, "=")
		switch {
		case strings.HasPrefix(arg, "-"):
			c.bad(setting, arg, `"name=value" without leading dashes`)
		case !ok || !argName.MatchString(name):
			c.bad(setting, arg, `"name=value"; a switch is "name=true"`)
		}
	}
}

// tokens checks a token and the file that may hold it instead. The token
// itself is never part of an error.
func (c *checker) tokens(setting, token, fileSetting, file string) {
	if token != "" && file != "" {
		c.fail(fileSetting, "", fmt.Errorf("%s is given as well", c.source(setting)), "one of the two")
		return
	}
	if token != "" {
		if _, err := jointoken.Parse(c.source(setting), token); err != nil {
			c.errs = append(c.errs, err)
		}
	}
	c.file(fileSetting, file)
}

func (c *checker) common(s *Common) {
	if s.DataDir == "" {
		c.fail("data-dir", "", ErrNoValue, "an absolute path")
	}
	c.absolute("data-dir", s.DataDir)
	if s.Verbosity < 0 || s.Verbosity > 10 {
		c.bad("v", strconv.Itoa(s.Verbosity), "a level from 0 to 10")
	}
	if s.VModule == "" {
		return
	}
	for part := range strings.SplitSeq(s.VModule, ",") {
		pattern, level, ok := strings.Cut(part, "=")
		n, err := strconv.Atoi(level)
		if !ok || pattern == "" || err != nil || n < 0 {
			c.bad("vmodule", s.VModule, `"pattern=level", comma separated`)
			return
		}
	}
}

// certName checks a host name or IPv4 address for a certificate.
func (c *checker) certName(setting, value string) {
	a, err := netip.ParseAddr(value)
	switch {
	case err == nil && !a.Is4():
		c.fail(setting, value, errIPv6, "a host name or an IPv4 address")
	case err == nil:
	case len(validation.IsDNS1123Subdomain(strings.ToLower(value))) > 0 &&
		len(validation.IsWildcardDNS1123Subdomain(strings.ToLower(value))) > 0:
		c.bad(setting, value, "a host name or an IPv4 address")
	}
}
