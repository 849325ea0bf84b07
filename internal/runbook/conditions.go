package runbook

import (
	"sync"

	"legwork/internal/expression"
)

// compiled keeps the conditions that were compiled: one is evaluated for every Node. It is emptied when it is full.
var compiled = struct {
	sync.Mutex
	conditions map[string]*expression.Cond
}{}

const maxCompiled = 1_000

func condition(text string) (*expression.Cond, error) {
	compiled.Lock()
	c, ok := compiled.conditions[text]
	compiled.Unlock()
	if ok {
		return c, nil
	}
	c, err := expression.Condition(text)
	if err != nil {
		return nil, err
	}
	compiled.Lock()
	defer compiled.Unlock()
	if compiled.conditions == nil || len(compiled.conditions) >= maxCompiled {
		compiled.conditions = map[string]*expression.Cond{}
	}
	compiled.conditions[text] = c
	return c, nil
}
