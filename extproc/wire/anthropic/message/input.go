package message

import (
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// AppendInput appends a call's arguments as an object, as this format requires. Other text, such as the arguments of a truncated call, is
// wrapped in an object under the key that Anthropic uses.
func AppendInput(dst, args []byte) []byte {
	v, err := jsonx.Parse(args)
	switch {
	case err == nil && v.Kind() == jsonx.Object:
		return append(dst, v.Raw...)
	case len(strings.TrimSpace(string(args))) == 0, err == nil && v.IsNull():
		return append(dst, "{}"...)
	}
	dst = append(dst, `{"INVALID_JSON":`...)
	return append(jsonx.AppendString(dst, args), '}')
}
