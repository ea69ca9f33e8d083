package disks

import "errors"

// ErrNoUser says that an image has no user or group of that name.
var ErrNoUser = errors.New("the image has no such user or group")

// Users are the users and groups of an image: its /etc/passwd and /etc/group.
type Users struct{ Passwd, Group []byte }

// User is a user as a process has it.
type User struct {
	Name     string // empty if the image does not know the id
	Home     string
	UID, GID uint32
	// Groups are the supplementary groups that the image gives the user.
	Groups []uint32
}

// Resolve finds "user", "uid", "user:group" or any mix of names and ids, as in
// an image's configuration. Empty is root.
func (u Users) Resolve(spec string) (User, error) { return User{}, errors.ErrUnsupported }
