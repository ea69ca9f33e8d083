package guest

import "github.com/a4s-io/a4s/agent/vm/qemu"

// CommandLine is what the embedded guest's kernel is told. Its console is the
// serial one. When its init ends, which it never should, the machine ends.
const CommandLine = "console=" + qemu.Console + " quiet panic=-1 reboot=t"
