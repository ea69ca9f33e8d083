package disks

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/moby/sys/user"
)

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
func (u Users) Resolve(spec string) (User, error) {
	found, err := user.GetExecUser(spec, &user.ExecUser{Home: "/"}, bytes.NewReader(u.Passwd),
		bytes.NewReader(u.Group))
	switch {
	case errors.Is(err, user.ErrRange):
		return User{}, fmt.Errorf("user %q: %w", spec, err)
	case err != nil:
		return User{}, fmt.Errorf("user %q: %w: %w", spec, ErrNoUser, err)
	}
	out := User{Home: found.Home, UID: uint32(found.Uid), GID: uint32(found.Gid)}
	for _, g := range found.Sgids {
		out.Groups = append(out.Groups, uint32(g))
	}
	entries, err := user.ParsePasswdFilter(bytes.NewReader(u.Passwd), func(e user.User) bool {
		return e.Uid == found.Uid
	})
	if err != nil {
		return User{}, fmt.Errorf("user %q: %w", spec, err)
	}
	if len(entries) > 0 {
		out.Name = entries[0].Name
	}
	return out, nil
}
