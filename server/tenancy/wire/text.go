package wire

import (
	"strings"

	"github.com/a4s-io/a4s/internal/space"
)

// hidden stands for the name of another tenant's object in a text.
const hidden = "<hidden>"

// accounts begin the names of service accounts and their groups.
const accounts = "system:serviceaccount"

// Text translates a text for people outwards: the composite names in it that
// are recognised become native, and those of other tenants are hidden. In the
// system's view, and in the view of all, it stays as it is.
func (v *View) Text(s string) string {
	if space.IsSystem(v.Tenant) || v.Tenant == space.All || strings.IndexByte(s, '.') < 0 {
		return s
	}
	var out strings.Builder
	copied := 0
	for i := 0; i < len(s); {
		if !nameByte(s[i]) {
			i++
			continue
		}
		begin := i
		for i < len(s) && nameByte(s[i]) {
			i++
		}
		word := strings.TrimRight(s[begin:i], ".") // the end of a sentence
		native := v.word(word, s[:begin])
		if native == word {
			continue
		}
		out.WriteString(s[copied:begin])
		out.WriteString(native)
		copied = begin + len(word)
	}
	if copied == 0 {
		return s
	}
	out.WriteString(s[copied:])
	return out.String()
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c >= 'A' && c <= 'Z'
}

// word translates one word of a text, before is what comes before it.
func (v *View) word(word, before string) string {
	dot := strings.IndexByte(word, '.')
	if dot == 0 && before != "" && !strings.ContainsAny(before[len(before)-1:], " \"'([,;=\n") &&
		(word == "."+v.Tenant || word == "."+v.Tenant+space.Suffix) {
		return "" // the name before it is none of letters
	}
	if dot <= 0 {
		return word
	}
	if strings.HasSuffix(word, space.Suffix) {
		switch tenant, native := space.SplitClusterName(word); tenant {
		case v.Tenant:
			return native
		case space.System:
			return word
		default:
			return hidden
		}
	}
	if strings.Contains(word[dot+1:], ".") {
		// With more dots than a namespace has it is a host name, unless it is
		// quoted: then it is a bad namespace, as somebody sent it.
		if native, ok := strings.CutSuffix(word, "."+v.Tenant); ok && strings.HasSuffix(before, `"`) {
			return native
		}
		return word
	}
	if word[dot+1:] == v.Tenant {
		return word[:dot]
	}
	if strings.HasSuffix(before, accounts+":") || strings.HasSuffix(before, accounts+"s:") {
		return hidden
	}
	return word
}
