package rule

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
)

// Limits of an expression.
const (
	MaxCondition = 4096    // bytes of its text
	maxCost      = 100_000 // of one evaluation, in CEL's units: about one per operator, and one per ten bytes of processed text
)

// language is a set of expressions in CEL: those with the same variables. Safe for concurrent use.
type language struct {
	variables map[string]*cel.Type
	bounded   bool // the variables have at most maxName bytes: the cost of an evaluation is known when the expression is compiled, and checked

	mu  sync.Mutex
	env *cel.Env // created for the first expression, so that programs without expressions do not pay for it
}

// compile parses an expression, checks that its value is of one of some types, which want describes, and limits the cost of an evaluation. uses has
// the variables that it names. The error is one line.
func (l *language) compile(text, want string, types ...*cel.Type) (program cel.Program, uses map[string]bool, err error) {
	if len(text) > MaxCondition {
		return nil, nil, fmt.Errorf("longer than %d bytes", MaxCondition)
	}
	l.mu.Lock() // also for the type check: a failed one writes to the environment (the catalog behind its suggestions)
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return nil, nil, err
	}
	ast, issues := l.env.Compile(text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		message, _, _ := strings.Cut(first.Message, " expecting {") // followed by a list of everything allowed
		return nil, nil, fmt.Errorf("line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, message)
	}
	if !slices.ContainsFunc(types, func(t *cel.Type) bool { return t.IsExactType(ast.OutputType()) }) {
		return nil, nil, fmt.Errorf("its value is of the type %s, not %s", ast.OutputType(), want)
	}
	if l.bounded {
		if most, err := l.env.EstimateCost(ast, shortNames{}); err != nil || most.Max > maxCost {
			return nil, nil, fmt.Errorf("its evaluation may take too many steps: %d of %d", most.Max, maxCost)
		}
	}
	uses = map[string]bool{}
	for _, r := range ast.NativeRep().ReferenceMap() {
		uses[r.Name] = r.Name != ""
	}
	program, err = l.env.Program(ast, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost))
	return program, uses, err
}

// open creates the environment. l.mu is locked.
func (l *language) open() (err error) {
	if l.env != nil {
		return nil
	}
	options := []cel.EnvOption{cel.CrossTypeNumericComparisons(true), cel.ParserExpressionSizeLimit(MaxCondition), cel.ParserRecursionLimit(64)}
	for name, t := range l.variables {
		options = append(options, cel.Variable(name, t))
	}
	if l.env, err = cel.NewEnv(options...); err != nil {
		return fmt.Errorf("making the environment of expressions: %w", err)
	}
	return nil
}

// maxName is the size in bytes that the cost of an evaluation is estimated for: that of a long name.
const maxName = 256

// shortNames estimates the cost of expressions whose variables are numbers and names.
type shortNames struct{}

// EstimateSize implements cost.Estimator.
func (shortNames) EstimateSize(cost.AstNode) *cost.SizeEstimate {
	return &cost.SizeEstimate{Max: maxName}
}

// EstimateCallCost implements cost.Estimator: calls have CEL's own costs.
func (shortNames) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
