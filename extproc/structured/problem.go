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

// Bounds on what is said of an answer.
const (
	mostIssues  = 20
	longestList = 12 // of allowed values
)

// problems are the sentences on what a check found, in the order of their places.
func problems(e *jsonschema.ValidationError) []string {
	var list []string
	collect(e, &list)
	slices.Sort(list)
	return bound(slices.Compact(list))
}

// bound leaves out what is beyond a list that somebody reads.
func bound(list []string) []string {
	if n := len(list); n > mostIssues {
		return append(slices.Clip(list[:mostIssues]), fmt.Sprintf("and %d more", n-mostIssues))
	}
	return list
}

// collect walks to the errors that say what is wrong.
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
			*list = append(*list, at(append(slices.Clip(e.InstanceLocation), name))+": is missing")
		}
		return
	case *why.AdditionalProperties:
		for _, name := range k.Properties {
			*list = append(*list, at(append(slices.Clip(e.InstanceLocation), name))+": there is no such member")
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

// alternatives says what is wrong with a value of which several forms are allowed: with the only one of its kind, where there is one.
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
		*list = append(*list, where(e)+"fits "+none)
	}
}

// ofOtherType reports whether an alternative was refused for the type of the value itself.
func ofOtherType(e *jsonschema.ValidationError, depth int) (t *why.Type, ok bool) {
	for len(e.Causes) == 1 {
		e = e.Causes[0]
	}
	t, ok = e.ErrorKind.(*why.Type)
	return t, ok && len(e.InstanceLocation) == depth
}

func where(e *jsonschema.ValidationError) string {
	if s := at(e.InstanceLocation); s != "" {
		return s + ": "
	}
	return "the answer "
}

var english = message.NewPrinter(language.English)

// sentence is what is wrong with a value, without its name.
func sentence(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *why.Type:
		return "is of type " + k.Got + ", and not " + strings.Join(k.Want, " or ")
	case *why.Enum:
		return shown(k.Got) + " is none of " + listed(k.Want)
	case *why.Const:
		return shown(k.Got) + " is not " + shown(k.Want)
	case *why.Minimum:
		return rational(k.Got) + " is less than the minimum, " + rational(k.Want)
	case *why.Maximum:
		return rational(k.Got) + " is more than the maximum, " + rational(k.Want)
	case *why.ExclusiveMinimum:
		return rational(k.Got) + " is not more than " + rational(k.Want)
	case *why.ExclusiveMaximum:
		return rational(k.Got) + " is not less than " + rational(k.Want)
	case *why.MultipleOf:
		return rational(k.Got) + " is no multiple of " + rational(k.Want)
	case *why.MinLength:
		return fmt.Sprintf("has %d characters, and has to have at least %d", k.Got, k.Want)
	case *why.MaxLength:
		return fmt.Sprintf("has %d characters, and may have %d", k.Got, k.Want)
	case *why.MinItems:
		return fmt.Sprintf("has %d elements, and has to have at least %d", k.Got, k.Want)
	case *why.MaxItems:
		return fmt.Sprintf("has %d elements, and may have %d", k.Got, k.Want)
	case *why.Pattern:
		return shown(k.Got) + " does not match " + clip(k.Want)
	case *why.Format:
		if errors.Is(k.Err, errPattern) {
			return k.Err.Error()
		}
		return shown(k.Got) + " is no valid " + clip(k.Want)
	case *why.FalseSchema:
		return "is not allowed"
	}
	return clip(k.LocalizedString(english))
}

// shown is a value as JSON.
func shown(v any) string {
	if b, err := json.Marshal(v); err == nil {
		return clip(string(b))
	}
	return clip(fmt.Sprint(v))
}

func listed(values []any) string {
	var names []string
	for _, v := range values[:min(len(values), longestList)] {
		names = append(names, shown(v))
	}
	if len(values) > longestList {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// rational is an exact number as people write it.
func rational(r *big.Rat) string {
	if n, exact := r.FloatPrec(); exact && n <= longestQuote {
		return clip(r.FloatString(n))
	}
	return clip(r.RatString())
}
