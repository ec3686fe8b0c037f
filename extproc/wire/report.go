package wire

import (
	"bytes"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// AppendLine appends a provider's JSON without its line breaks, which would end a frame of a stream. JSON strings contain none.
func AppendLine(dst, json []byte) []byte {
	for {
		i := bytes.IndexAny(json, "\r\n")
		if i < 0 {
			return append(dst, json...)
		}
		dst = append(dst, json[:i]...)
		json = json[i+1:]
	}
}

// maxMembers is the maximum number of members of a merged report: a stream may report in every chunk, with new members each time.
const maxMembers = 64

// AppendMerged appends the object that merges two reports, such as a provider's usage at the start and at the end: the later value of each
// member, unless it is null or zero. Members beyond 64 are dropped. See chat.Usage.Merge.
func AppendMerged(dst []byte, earlier, later jsonx.Value) []byte {
	type member struct {
		key  string
		a, b jsonx.Value
	}
	var members []member
	for key, v := range earlier.Members {
		if len(members) == maxMembers {
			break
		}
		members = append(members, member{key: string(key), a: v})
	}
	for key, v := range later.Members {
		i := slices.IndexFunc(members, func(m member) bool { return m.key == string(key) })
		if i < 0 {
			if len(members) >= maxMembers {
				continue
			}
			i = len(members)
			members = append(members, member{key: string(key)})
		}
		members[i].b = v
	}
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonx.AppendString(dst, m.key), ':')
		switch {
		case m.a.Kind() == jsonx.Object && m.b.Kind() == jsonx.Object:
			dst = AppendMerged(dst, m.a, m.b)
		case !m.a.Exists(), !m.b.IsNull() && !isZero(m.b):
			dst = AppendLine(dst, m.b.Raw)
		default:
			dst = AppendLine(dst, m.a.Raw)
		}
	}
	return append(dst, '}')
}

// MergeUsage adds a usage report to an encoder's totals: to the numbers, and, if provider and client speak the same dialect, to the
// provider's own object.
func MergeUsage(total *chat.Usage, own *[]byte, ev *chat.Event, same bool) {
	total.Merge(ev.Usage)
	if same && ev.Text != nil {
		*own = AppendMerged(nil, jsonx.Value{Raw: *own}, jsonx.Value{Raw: ev.Text})
	}
}

func isZero(v jsonx.Value) bool {
	f, ok := v.Float()
	return ok && f == 0
}
