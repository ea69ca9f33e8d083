package guest

// CommandLine is what the embedded guest's kernel is told. Its console is the
// serial one. When its init ends, which it never should, the machine ends.
const CommandLine = "console=ttyS0 quiet panic=-1 reboot=t"
