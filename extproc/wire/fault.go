package wire

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// maxModelName is the maximum length of a model's name in bytes: it is echoed in answers and errors.
const maxModelName = 256

// NotJSON returns the fault for a body that is not JSON, or that parsers could read differently; err is the error of its scan.
func NotJSON(err error) error {
	if se, ok := errors.AsType[*jsonx.SyntaxError](err); ok {
		if se.Member != "" {
			return Invalid(se.Member, "%s", se.Error())
		}
		return fault.New(fault.InvalidRequest, "the request body is not valid JSON: "+se.Error(), nil)
	}
	return fault.New(fault.InvalidRequest, "the request body is not valid JSON", err)
}

// Invalid returns the fault for a field, whose path has the syntax of its format: messages.0.content.1.text, messages[0].content[1].text.
func Invalid(field, format string, args ...any) error {
	f := fault.New(fault.InvalidRequest, fmt.Sprintf(format, args...), nil)
	f.Param = field
	return f
}

// WrongKind returns the fault for a field of the wrong JSON type; want is the expected one: "a string".
func WrongKind(field, want string, got jsonx.Value) error {
	return Invalid(field, "%s must be %s, not %s", field, want, got.Kind())
}

// ModelName reads the name of the requested model, which may be empty. The error is a fault.
func ModelName(v jsonx.Value) (string, error) {
	name, ok := v.Str()
	if !ok {
		return "", WrongKind("model", "a string", v)
	}
	return name, CheckModelName(name)
}

// CheckModelName refuses a model name that cannot be echoed. The error is a fault.
func CheckModelName(name string) error {
	switch {
	case len(name) > maxModelName:
		return Invalid("model", "model must be at most %d bytes long", maxModelName)
	case strings.ContainsFunc(name, unicode.IsControl): // the name is echoed in a header
		return Invalid("model", "model must not hold control characters")
	}
	return nil
}
