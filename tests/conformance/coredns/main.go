// Command coredns is /coredns of the stand-in for agnhost: CoreDNS with those of its
// plugins that the tests' configurations name.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/log"
)

func main() { coremain.Run() }
