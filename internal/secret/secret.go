// Package secret holds credentials so that they are not printed by accident, and removes them from texts such as providers' errors.
package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// Text is a credential. It prints and encodes as "***" (or as nothing if it is not set), also inside values that are printed with their unexported
// fields; only Reveal returns the text. The zero value is not set. Do not compare two of them by ==.
type Text struct{ text *string }

// New returns a credential; an unset one for an empty text.
func New(text string) Text {
	if text == "" {
		return Text{}
	}
	return Text{&text}
}

// Reveal returns the credential itself, to be sent; "" if it is not set.
func (t Text) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// IsSet reports whether there is a credential.
func (t Text) IsSet() bool { return t.text != nil }

// mask is printed for every credential.
const mask = "***"

// String hides the credential.
func (t Text) String() string {
	if t.text == nil {
		return ""
	}
	return mask
}

// GoString hides the credential.
func (t Text) GoString() string { return `"` + t.String() + `"` }

// Format hides the credential from every verb.
func (t Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// MarshalText hides the credential from encoders.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MarshalJSON hides the credential from encoders of JSON.
func (t Text) MarshalJSON() ([]byte, error) { return []byte(t.GoString()), nil }

// LogValue hides the credential from logs.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }

var (
	_ fmt.Formatter  = Text{}
	_ slog.LogValuer = Text{}
)
