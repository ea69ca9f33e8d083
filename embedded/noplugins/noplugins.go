//go:build static_build

package noplugins

/*
#cgo LDFLAGS: -Wl,--wrap=dlopen

void *__wrap_dlopen(const char *file, int mode) {
	(void)file;
	(void)mode;
	return 0;
}
*/
import "C"
