package rule

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
)

// Limits of a condition.
const (
	MaxCondition = 4096    // bytes of its text
	maxCost      = 100_000 // of one evaluation, in CEL's units: about one per operator, and one per ten bytes of processed text
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

// Condition is a condition on a call. Safe for concurrent use.
type Condition struct{ program cel.Program }

// environment is created for the first condition, so that programs without conditions do not pay for it.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{cel.CrossTypeNumericComparisons(true), cel.ParserExpressionSizeLimit(MaxCondition), cel.ParserRecursionLimit(64)}
	for name, t := range names {
		options = append(options, cel.Variable(name, t))
	}
	return cel.NewEnv(options...)
})

// compiling serialises the type check: a failed check writes to the shared environment (the catalog behind its suggestions), which races with any
// other check.
var compiling sync.Mutex

// ParseCondition parses a condition in CEL. Safe for concurrent use. The error is one line.
func ParseCondition(text string) (*Condition, error) {
	if len(text) > MaxCondition {
		return nil, fmt.Errorf("longer than %d bytes", MaxCondition)
	}
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("making the environment of conditions: %w", err)
	}
	compiling.Lock()
	ast, issues := env.Compile(text)
	compiling.Unlock()
	if issues.Err() != nil {
		first := issues.Errors()[0]
		message, _, _ := strings.Cut(first.Message, " expecting {") // followed by a list of everything allowed
		return nil, fmt.Errorf("line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, message)
	}
	if ast.OutputType() != cel.BoolType {
		return nil, fmt.Errorf("its value is of the type %s, not true or false", ast.OutputType())
	}
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost))
	if err != nil {
		return nil, err
	}
	return &Condition{program}, nil
}

// errNoBool is returned for a condition whose value is neither true nor false, which its check excludes.
var errNoBool = errors.New("no true or false")

// Holds reports whether a call meets the condition. The error means that it cannot be evaluated, for example because the arguments lack a member; it
// may quote them.
func (c *Condition) Holds(v *Vars) (bool, error) {
	out, _, err := c.program.Eval(v)
	if err != nil {
		return false, err
	}
	holds, ok := out.Value().(bool)
	if !ok {
		return false, errNoBool
	}
	return holds, nil
}
