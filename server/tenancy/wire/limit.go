package wire

import "fmt"

const (
	// maxDepth is how deep objects and lists may be nested in what tenants send:
	// the deepest schemas of custom resources that are in use have about 50 levels.
	maxDepth = 200
	// maxMembers is how many members an object or a list of it may have. What
	// upstream remembers of who set them is a sorted list, in which it makes room
	// for each.
	maxMembers = 10_000
	// maxElements bounds the lists of a strategic merge patch: upstream compares
	// each element with all of the object's list.
	maxElements = 1000
)

// Limit refuses a document of JSON that would be too much work for those who
// read it.
func Limit(body []byte) error {
	if deeper(body, maxDepth) {
		return fmt.Errorf("%w: JSON: objects and lists are nested deeper than %d levels", ErrMalformed, maxDepth)
	}
	if most, _ := membersOf(body); most > maxMembers {
		return fmt.Errorf("%w: an object or a list has more than %d members", ErrTooLarge, maxMembers)
	}
	return nil
}

// limitLists refuses a strategic merge patch that would be too much work.
func limitLists(body []byte) error {
	if _, elements := membersOf(body); elements > maxElements {
		return fmt.Errorf("%w: the lists of a strategic merge patch have more than %d elements: "+
			"send a merge patch, or apply", ErrTooLarge, maxElements)
	}
	return nil
}

// membersOf counts the members of objects and lists, as far as they are nested no
// deeper than they may be: the most that one has, and what is in lists.
func membersOf(b []byte) (most, elements int) {
	var count [maxDepth + 1]int
	var list [maxDepth + 1]bool
	depth := 0
	for i := 0; i < len(b); i++ {
		switch c := b[i]; c {
		case '"':
			i, _ = stringEnd(b, i+1)
		case '{', '[':
			if depth == maxDepth {
				return most, elements
			}
			depth++
			count[depth], list[depth] = 1, c == '['
			if list[depth] {
				elements++
			}
		case '}', ']':
			depth = max(0, depth-1)
		case ',':
			count[depth]++
			most = max(most, count[depth])
			if list[depth] {
				elements++
			}
		}
	}
	return most, elements
}
