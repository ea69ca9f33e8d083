package groupwatch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

var errList = errors.New("a server does not list the part of a service group")

// list is one as it came. Its objects are not decoded.
type list struct {
	media string
	rev   string
	at    int64 // rev as a number
	// kind is what says the kind of the list: the TypeMeta of protobuf, and all fields but
	// items and metadata of JSON.
	kind   []byte
	fields map[string]json.RawMessage
	// items are the objects, in protobuf several in one piece.
	items [][]byte
}

// readList reads an answer to its end.
func readList(res *http.Response) (*list, error) {
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errList, err)
	}
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errList, err)
	}
	l := &list{media: media}
	switch {
	case res.Header.Get("Content-Encoding") != "":
		err = fmt.Errorf("it is encoded as %s", res.Header.Get("Content-Encoding"))
	case media == jsonMedia:
		err = l.readJSON(body)
	case media == protobufMedia:
		err = l.readProtobuf(body)
	default:
		err = fmt.Errorf("it is of type %s", media)
	}
	if err == nil {
		l.at, err = strconv.ParseInt(l.rev, 10, 64)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errList, err)
	}
	return l, nil
}

func (l *list) readJSON(body []byte) error {
	if err := json.Unmarshal(body, &l.fields); err != nil {
		return err
	}
	var meta struct{ ResourceVersion string }
	if err := json.Unmarshal(l.fields["metadata"], &meta); err != nil {
		return err
	}
	var items []json.RawMessage
	if raw := l.fields["items"]; raw != nil {
		if err := json.Unmarshal(raw, &items); err != nil {
			return err
		}
	}
	for _, item := range items {
		l.items = append(l.items, item)
	}
	l.rev = meta.ResourceVersion
	delete(l.fields, "items")
	return nil
}

// Fields of messages in protobuf.
const (
	unknownType, unknownRaw = 1, 2 // of runtime.Unknown
	listMeta, listItems     = 1, 2 // of every list
	metaRevision            = 2    // of ListMeta
)

func (l *list) readProtobuf(body []byte) error {
	if len(body) < len(magic) || string(body[:len(magic)]) != string(magic) {
		return errFrame
	}
	var err error
	if l.kind, err = field(body[len(magic):], unknownType); err != nil {
		return err
	}
	raw, err := field(body[len(magic):], unknownRaw)
	if err != nil {
		return err
	}
	meta, err := field(raw, listMeta)
	if err != nil {
		return err
	}
	rev, err := field(meta, metaRevision)
	if err != nil {
		return err
	}
	l.rev = string(rev)
	// The items stay as they are, in one piece if nothing else is between them.
	for at, from := 0, 0; at < len(raw); {
		num, _, n := protowire.ConsumeField(raw[at:])
		if n < 0 {
			return fmt.Errorf("%w: %w", errFrame, protowire.ParseError(n))
		}
		at += n
		if num != listItems {
			from = at
			continue
		}
		if from < at-n {
			l.items = l.items[:len(l.items)-1]
		}
		l.items = append(l.items, raw[from:at])
	}
	return nil
}

// joined is the body of one list of lists of the same revision.
func joined(first *list, others []*list) ([][]byte, error) {
	items := [][]byte{}
	for _, l := range append([]*list{first}, others...) {
		if l.media != first.media || l.rev != first.rev {
			return nil, fmt.Errorf("%w: parts of two kinds", errList)
		}
		items = append(items, l.items...)
	}
	if first.media == protobufMedia {
		return joinedProtobuf(first, items), nil
	}
	return joinedJSON(first, items)
}

func joinedProtobuf(first *list, items [][]byte) [][]byte {
	var meta []byte
	meta = protowire.AppendTag(meta, metaRevision, protowire.BytesType)
	meta = protowire.AppendString(meta, first.rev)
	var head []byte
	head = protowire.AppendTag(head, listMeta, protowire.BytesType)
	head = protowire.AppendBytes(head, meta)
	size := len(head)
	for _, item := range items {
		size += len(item)
	}
	out := slices.Clone(magic)
	out = protowire.AppendTag(out, unknownType, protowire.BytesType)
	out = protowire.AppendBytes(out, first.kind)
	out = protowire.AppendTag(out, unknownRaw, protowire.BytesType)
	out = protowire.AppendVarint(out, uint64(size)) //nolint:gosec // it is not negative
	return append([][]byte{append(out, head...)}, items...)
}

func joinedJSON(first *list, items [][]byte) ([][]byte, error) {
	fields := map[string]json.RawMessage{}
	for name, value := range first.fields {
		fields[name] = value
	}
	fields["metadata"] = fmt.Appendf(nil, `{"resourceVersion":%q}`, first.rev)
	head, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	out := [][]byte{append(head[:len(head)-1:len(head)-1], `,"items":[`...)}
	for i, item := range items {
		if i > 0 {
			out = append(out, []byte(","))
		}
		out = append(out, item)
	}
	return append(out, []byte("]}\n")), nil
}
