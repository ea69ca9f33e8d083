// Command nonewprivs says which user it is in effect. As a set-user-id program
// it shows whether a container may gain privileges.
package main

import (
	"fmt"
	"os"
)

func main() { fmt.Printf("Effective uid: %d\n", os.Geteuid()) }
