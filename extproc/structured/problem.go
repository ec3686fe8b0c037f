package structured

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	why "github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Limits of the list of issues.
const (
	maxIssues = 20
	maxListed = 12 // allowed values that are listed
)

// problems formats the errors of a check, sorted by path.
func problems(e *jsonschema.ValidationError) []string {
	var list []string
	collect(e, &list)
	slices.Sort(list)
	return limited(slices.Compact(list))
}

// limited shortens a list to maxIssues.
func limited(list []string) []string {
	if n := len(list); n > maxIssues {
		return append(slices.Clip(list[:maxIssues]), fmt.Sprintf("and %d more", n-maxIssues))
	}
	return list
}

// collect appends the specific errors at the leaves of the error tree.
func collect(e *jsonschema.ValidationError, list *[]string) {
	switch k := e.ErrorKind.(type) {
	case *why.AnyOf:
		alternatives(e, list, "none of the alternatives")
		return
	case *why.OneOf:
		if len(k.Subschemas) == 0 {
			alternatives(e, list, "none of the alternatives")
			return
		}
	case *why.Required:
		for _, name := range k.Missing {
			*list = append(*list, readablePath(append(slices.Clip(e.InstanceLocation), name))+": is missing")
		}
		return
	case *why.AdditionalProperties:
		for _, name := range k.Properties {
			*list = append(*list, readablePath(append(slices.Clip(e.InstanceLocation), name))+": is not allowed here")
		}
		return
	}
	if len(e.Causes) == 0 {
		*list = append(*list, where(e)+sentence(e.ErrorKind))
		return
	}
	for _, c := range e.Causes {
		collect(c, list)
	}
}

// alternatives reports why a value matches none of several schemas: if only one of them allows the value's type, the issues of that one.
func alternatives(e *jsonschema.ValidationError, list *[]string, none string) {
	var near []*jsonschema.ValidationError
	var kinds []string
	for _, c := range e.Causes {
		if t, ok := ofOtherType(c, len(e.InstanceLocation)); ok {
			kinds = append(kinds, t.Want...)
		} else {
			near = append(near, c)
		}
	}
	switch {
	case len(near) == 1:
		collect(near[0], list)
	case len(near) == 0 && len(kinds) > 0:
		*list = append(*list, where(e)+"is not of type "+strings.Join(kinds, " or "))
	default:
		*list = append(*list, where(e)+"matches "+none)
	}
}

// ofOtherType reports whether an alternative failed because of the type of the value itself.
func ofOtherType(e *jsonschema.ValidationError, depth int) (t *why.Type, ok bool) {
	for len(e.Causes) == 1 {
		e = e.Causes[0]
	}
	t, ok = e.ErrorKind.(*why.Type)
	return t, ok && len(e.InstanceLocation) == depth
}

func where(e *jsonschema.ValidationError) string {
	if s := readablePath(e.InstanceLocation); s != "" {
		return s + ": "
	}
	return "the answer "
}

var english = message.NewPrinter(language.English)

// sentence describes an error, without the path.
func sentence(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *why.Type:
		return "is of type " + k.Got + ", not " + strings.Join(k.Want, " or ")
	case *why.Enum:
		return shown(k.Got) + " is not one of " + listed(k.Want)
	case *why.Const:
		return shown(k.Got) + " is not " + shown(k.Want)
	case *why.Minimum:
		return decimal(k.Got) + " is less than the minimum, " + decimal(k.Want)
	case *why.Maximum:
		return decimal(k.Got) + " is more than the maximum, " + decimal(k.Want)
	case *why.ExclusiveMinimum:
		return decimal(k.Got) + " is not more than " + decimal(k.Want)
	case *why.ExclusiveMaximum:
		return decimal(k.Got) + " is not less than " + decimal(k.Want)
	case *why.MultipleOf:
		return decimal(k.Got) + " is not a multiple of " + decimal(k.Want)
	case *why.MinLength:
		return fmt.Sprintf("has %d characters, but needs at least %d", k.Got, k.Want)
	case *why.MaxLength:
		return fmt.Sprintf("has %d characters, but at most %d are allowed", k.Got, k.Want)
	case *why.MinItems:
		return fmt.Sprintf("has %d elements, but needs at least %d", k.Got, k.Want)
	case *why.MaxItems:
		return fmt.Sprintf("has %d elements, but at most %d are allowed", k.Got, k.Want)
	case *why.Pattern:
		return shown(k.Got) + " does not match " + clip(k.Want)
	case *why.Format:
		if errors.Is(k.Err, errPattern) {
			return k.Err.Error()
		}
		return shown(k.Got) + " is not a valid " + clip(k.Want)
	case *why.FalseSchema:
		return "is not allowed"
	}
	return clip(k.LocalizedString(english))
}

// shown formats a value as JSON.
func shown(v any) string {
	if b, err := json.Marshal(v); err == nil {
		return clip(string(b))
	}
	return clip(fmt.Sprint(v))
}

func listed(values []any) string {
	var names []string
	for _, v := range values[:min(len(values), maxListed)] {
		names = append(names, shown(v))
	}
	if len(values) > maxListed {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// decimal formats an exact number.
func decimal(r *big.Rat) string {
	if n, exact := r.FloatPrec(); exact && n <= maxQuoted {
		return clip(r.FloatString(n))
	}
	return clip(r.RatString())
}
