package rule

import (
	"errors"

	"cel.dev/cel-go/cel"
)

// Vars are the variables of a condition, by name.
type Vars struct {
	Tool          string
	Args          map[string]any // see Args
	Subsystem     string
	GolemID       string
	SessionID     string
	Key           string // the id of the caller's API key
	KeyName       string
	Tier          string
	Regime        string
	Phase         string
	TaskClass     string
	SecurityClass string
	Vitality      float64 // 1 if the request does not state it
	Model         string
}

// names has the variables and their types. It is the only such list besides Vars.find.
var names = map[string]*cel.Type{
	"tool": cel.StringType, "args": cel.MapType(cel.StringType, cel.DynType), "subsystem": cel.StringType, "golem_id": cel.StringType,
	"session_id": cel.StringType, "key": cel.StringType, "key_name": cel.StringType, "tier": cel.StringType, "regime": cel.StringType,
	"phase": cel.StringType, "task_class": cel.StringType, "security_class": cel.StringType, "vitality": cel.DoubleType, "model": cel.StringType,
}

// ResolveName implements cel's activation: values are converted when a condition uses them.
func (v *Vars) ResolveName(name string) (any, bool) {
	value := v.find(name)
	return value, value != nil
}

// Parent implements cel's activation.
func (*Vars) Parent() cel.Activation { return nil }

func (v *Vars) find(name string) any {
	switch name {
	case "tool":
		return v.Tool
	case "args":
		return v.Args
	case "subsystem":
		return v.Subsystem
	case "golem_id":
		return v.GolemID
	case "session_id":
		return v.SessionID
	case "key":
		return v.Key
	case "key_name":
		return v.KeyName
	case "tier":
		return v.Tier
	case "regime":
		return v.Regime
	case "phase":
		return v.Phase
	case "task_class":
		return v.TaskClass
	case "security_class":
		return v.SecurityClass
	case "vitality":
		return v.Vitality
	case "model":
		return v.Model
	}
	return nil
}

// calls are the expressions about calls.
var calls = language{variables: names}

// Condition is a condition on a call. Safe for concurrent use.
type Condition struct{ program cel.Program }

// ParseCondition parses a condition in CEL. Safe for concurrent use. The error is one line.
func ParseCondition(text string) (*Condition, error) {
	program, _, err := calls.compile(text, "true or false", cel.BoolType)
	if err != nil {
		return nil, err
	}
	return &Condition{program}, nil
}

// errNoBool is returned for a condition whose value is neither true nor false, which its check excludes.
var errNoBool = errors.New("no true or false")

// Holds reports whether a call meets the condition. The error means that it cannot be evaluated, for example because the arguments lack a member; it
// may quote them.
func (c *Condition) Holds(v *Vars) (bool, error) { return holds(c.program, v) }

// holds evaluates an expression whose value is true or false.
func holds(program cel.Program, v cel.Activation) (bool, error) {
	out, _, err := program.Eval(v)
	if err != nil {
		return false, err
	}
	b, ok := out.Value().(bool)
	if !ok {
		return false, errNoBool
	}
	return b, nil
}
