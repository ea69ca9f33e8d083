package merge

import (
	"errors"
	"io/fs"
)

// Pods live or die by what is said here: a list without the pods of a partition ends them. So
// there is one way to know what a partition has for each reason to know it, and an error on any
// way means "not known", never "none".
//
//	           never, recalled, answered, waived
//	waiting ──────────────────────────────▶ known ⟲ answered
//	   │                                      ▲
//	   │ silent                               │ never, recalled, answered, waived
//	   └──────────────▶ unknown ──────────────┘
//
// Nothing leads from known to another state but the end of the partition: what it said last
// counts until it says something else.

// state is what is known of what one partition has of one set.
type state int

const (
	// waiting: it is asked.
	waiting state = iota
	// unknown: it did not answer, and nobody knows what it said before.
	unknown
	// known: it has answered, or what it said before counts.
	known
)

// knowledge is a state with its transitions. All but answered report whether they changed
// anything that others wait for.
type knowledge struct{ is state }

// answered: the partition has listed what it has.
func (k *knowledge) answered() { k.is = known }

// recalled: it is known what the partition said before this process. It does not count any more
// when it has answered.
func (k *knowledge) recalled() bool { return k.to(known) }

// never: the node never had anything of the partition.
func (k *knowledge) never() bool { return k.to(known) }

// waived: it is not waited for any longer. Never of pods: without anything else a pod only
// waits, at worst.
func (k *knowledge) waived() bool { return k.to(known) }

// silent: the partition does not answer, and what it said before is not known, at least not now.
func (k *knowledge) silent() bool { return k.to(unknown) }

func (k *knowledge) to(next state) bool {
	if k.is == known || k.is == next {
		return false
	}
	k.is = next
	return true
}

// past is what the disk says of whether the node had something of a partition.
type past int

const (
	// unclear: nobody can tell. It is the zero value, and that after every error.
	unclear past = iota
	// had: it may have pods of it, whatever else is on the disk.
	had
	// none: it never had anything of it.
	none
)

// pastOf judges by whether there is the mark that every partition that there was has its
// directory, and whether there is the directory of this one.
func pastOf(mark, directory error) (past, error) {
	for _, err := range []error{mark, directory} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return unclear, err
		}
	}
	if mark == nil && directory != nil {
		return none, nil
	}
	return had, nil
}
