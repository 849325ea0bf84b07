package expression

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"legwork/internal/fault"
)

// Limits of one condition.
const (
	MaxCondition     = 4 << 10 // bytes of its text
	maxConditionCost = 100_000 // of one evaluation, in CEL's units: about one for each step of the work
	maxConditionDeep = 50      // brackets in each other
)

// conditions is made when the first condition is compiled: a process that compiles none does not pay for it.
var conditions = sync.OnceValues(func() (*cel.Env, error) {
	values := cel.MapType(cel.StringType, cel.DynType)
	return cel.NewEnv(
		cel.Variable(string(Option), values), cel.Variable(string(Node), values), cel.Variable(string(Step), values),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserRecursionLimit(maxConditionDeep), cel.ParserExpressionSizeLimit(MaxCondition),
	)
})

// Cond is a condition in CEL over the Options, the Node and the results of earlier steps. It may be evaluated by several
// goroutines at once.
type Cond struct {
	text    string
	program cel.Program
	refs    []Ref
}

// Vars are the values that a condition sees.
type Vars struct {
	Option map[string]any // string, float64, bool or []string
	Node   map[string]any // name, address, user, os, arch: string; port: int64; tags: []string; attribute: map[string]string. Empty for what is not done on a Node
	Step   map[string]any // name -> map[string]any of status: string, exit_code: int64, and the values passed on
}

// Condition compiles a condition. It is an Invalid Fault of code `condition`, which says the column, when it is no CEL, speaks of
// anything but option, node and step, or cannot be true or false.
func Condition(text string) (*Cond, error) {
	if len(text) > MaxCondition {
		return nil, wrongCondition("the condition has more than %d bytes", MaxCondition)
	}
	env, err := conditions()
	if err != nil {
		return nil, fmt.Errorf("making the environment of conditions: %w", err)
	}
	compiled, issues := env.Compile(text)
	if issues.Err() != nil {
		return nil, wrongCondition("%s", firstIssue(text, issues))
	}
	if out := compiled.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return nil, wrongCondition("column 1: the condition gives %s, and wants true or false", out)
	}
	program, err := env.Program(compiled, cel.CostLimit(maxConditionCost))
	if err != nil {
		return nil, wrongCondition("column 1: %s", err)
	}
	return &Cond{text: text, program: program, refs: condRefs(compiled)}, nil
}

func wrongCondition(format string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, "condition", format, args...).
		WithHint(`a condition is a CEL expression such as option.env == "prod" && step.check.exit_code == 0; names that hold "-" or "/" are written step["my-step"].status`)
}

func firstIssue(text string, issues *cel.Issues) string {
	first := issues.Errors()[0]
	message, _, _ := strings.Cut(first.Message, "\n")
	place := "column 1"
	if at := first.Location; at.Line() > 0 && at.Column() >= 0 {
		place = fmt.Sprintf("column %d", at.Column()+1)
		if strings.Contains(strings.TrimRight(text, "\n"), "\n") {
			place = fmt.Sprintf("line %d, column %d", at.Line(), at.Column()+1)
		}
	}
	return place + ": " + strings.TrimSuffix(strings.ReplaceAll(message, " (in container '')", ""), ".")
}

// Text gives the condition as it was written.
func (c *Cond) Text() string { return c.text }

// Refs gives the values that the condition names outright (option.x, step["a"].b), each once. Of a step whose status or exit code
// is asked for, Key is "status" or "exit_code".
func (c *Cond) Refs() []Ref { return c.refs }

// Eval evaluates the condition. What cannot be evaluated, such as a value that is not there, is a Failed Fault of code
// `condition`.
func (c *Cond) Eval(v Vars) (bool, error) {
	given := func(m map[string]any) map[string]any {
		if m == nil {
			return map[string]any{}
		}
		return m
	}
	out, _, err := c.program.Eval(map[string]any{string(Option): given(v.Option), string(Node): given(v.Node), string(Step): given(v.Step)})
	if err != nil {
		return false, fault.New(fault.Failed, "condition", "the condition %s could not be evaluated: %s", brief(c.text), err).
			WithHint("ask whether a value is there first: has(step.NAME.VALUE) && ...")
	}
	yes, ok := out.Value().(bool)
	if !ok {
		return false, fault.New(fault.Failed, "condition", "the condition %s gave %s, and not true or false", brief(c.text), out.Type().TypeName())
	}
	return yes, nil
}

func brief(s string) string { return fmt.Sprintf("%q", cut(s)) }

// condRefs collects the chains of names that begin with a root.
func condRefs(compiled *cel.Ast) []Ref {
	var refs []Ref
	ast.PreOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		path := chain(e)
		if len(path) < 2 {
			return
		}
		r := Ref{Root: Root(path[0]), Name: path[1]}
		if len(path) > 2 && (r.Root == Step || r.Root == Node && r.Name == Attribute) {
			r.Key = path[2]
		}
		// The visit is from the outside in: a longer chain comes before its beginning.
		covered := slices.ContainsFunc(refs, func(o Ref) bool { return o == r || r.Key == "" && o.Root == r.Root && o.Name == r.Name })
		if !covered {
			refs = append(refs, r)
		}
	}))
	return refs
}

// chain gives root, name, key of root.name.key and root["name"]["key"]; nil for anything else.
func chain(e ast.Expr) []string {
	switch e.Kind() {
	case ast.IdentKind:
		if root := Root(e.AsIdent()); root == Option || root == Node || root == Step {
			return []string{string(root)}
		}
	case ast.SelectKind:
		if path := chain(e.AsSelect().Operand()); path != nil {
			return append(path, e.AsSelect().FieldName())
		}
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index || len(call.Args()) != 2 || call.Args()[1].Kind() != ast.LiteralKind {
			return nil
		}
		name, ok := call.Args()[1].AsLiteral().Value().(string)
		if path := chain(call.Args()[0]); path != nil && ok {
			return append(path, name)
		}
	}
	return nil
}
