package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"legwork/internal/fault"
	"legwork/internal/work"
)

// planView is a page of a plan: its resources by what happens to them, those first that are most worth a look.
type planView struct {
	groups   []planGroup
	total    int // resources, on all pages
	from, to int // those on this one, counted from 0
}

type planGroup struct {
	action    planAction
	resources []planResource
}

type planResource struct {
	id            string // of its element
	address, kind string
	values        []planValue
	same          int // values that stay as they are, which are not shown
}

// planValue is one value of a resource. "" of before or after: it is not there.
type planValue struct {
	name          string
	before, after string
	hidden        bool // sensitive: it never left the Runner's host
}

// planAction is what happens to a resource: a word, a sign and a colour.
type planAction struct{ name, title, sign, tone string }

// planActions are in the order in which they are shown: what ends first.
var planActions = []planAction{
	{"delete", "To destroy", "−", "bad"}, {"replace", "To replace", "±", "warn"}, {"update", "To change", "~", "busy"},
	{"create", "To create", "+", "good"}, {"read", "To read", "›", "calm"}, {"", "Other", "·", "calm"},
}

const (
	planShown  = 100  // resources on one page
	longValue  = 4000 // bytes of one value that are shown
	mostValues = 200  // of one resource
	plansKept  = 8
	hiddenText = "(sensitive)" // as the Runner puts it
)

// planOf gives a page of the present plan of a Job, nil when there is none. v.query("plan") says from which resource on.
func (v *visit) planOf(j *work.Job) (*planView, error) {
	summary := j.Plan()
	if summary == nil {
		return nil, nil
	}
	from, _ := strconv.Atoi(v.query("plan")) // what is no number is the beginning
	key := fmt.Sprint(j.ID, " ", j.Attempt, " ", summary.Hash, " ", max(from, 0))
	if p := v.plans.get(key); p != nil {
		return p, nil
	}
	changes, err := v.Control.JobPlan(v.ctx, v.actor, j.ID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil // it is being stored, or was deleted with old Jobs
	}
	if err != nil {
		return nil, err
	}
	p := planViewOf(changes, from)
	v.plans.put(key, p)
	return p, nil
}

// plans keeps pages of plans as they are shown: a plan never changes, but its page is rendered whenever its Job does. Who reads one
// was let see its Job.
type plans struct {
	mu    sync.Mutex
	pages map[string]*planView
	order []string
}

func (c *plans) get(key string) *planView {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pages[key]
}

func (c *plans) put(key string, p *planView) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pages == nil {
		c.pages = map[string]*planView{}
	}
	if c.pages[key] == nil {
		c.order = append(c.order, key)
	}
	c.pages[key] = p
	if len(c.order) > plansKept {
		delete(c.pages, c.order[0])
		c.order = c.order[1:]
	}
}

// actionOf gives what happens to a resource, false when nothing does.
func actionOf(c work.ResourceChange) (planAction, bool) {
	name := ""
	switch {
	case slices.Contains(c.Actions, "create") && slices.Contains(c.Actions, "delete"):
		name = "replace"
	case len(c.Actions) == 0 || (len(c.Actions) == 1 && c.Actions[0] == "no-op"):
		return planAction{}, false
	case len(c.Actions) == 1:
		name = c.Actions[0]
	}
	i := slices.IndexFunc(planActions, func(a planAction) bool { return a.name == name })
	if i < 0 {
		i = len(planActions) - 1
	}
	return planActions[i], true
}

func planViewOf(changes []work.ResourceChange, from int) *planView {
	rank := func(c work.ResourceChange) int {
		a, _ := actionOf(c)
		return slices.Index(planActions, a)
	}
	changes = slices.DeleteFunc(slices.Clone(changes), func(c work.ResourceChange) bool { _, ok := actionOf(c); return !ok })
	slices.SortStableFunc(changes, func(a, b work.ResourceChange) int {
		return cmp.Or(rank(a)-rank(b), compareNatural(a.Address, b.Address))
	})
	p := &planView{total: len(changes), from: min(max(from, 0), len(changes))}
	p.to = min(p.from+planShown, len(changes))
	for i, c := range changes[p.from:p.to] {
		action, _ := actionOf(c)
		if n := len(p.groups); n == 0 || p.groups[n-1].action != action {
			p.groups = append(p.groups, planGroup{action: action})
		}
		g := &p.groups[len(p.groups)-1]
		r := resourceOf(c)
		r.id = fmt.Sprint("resource-", p.from+i)
		g.resources = append(g.resources, r)
	}
	return p
}

// compareNatural orders texts as people do: what counts up in them by its number, so that [2] comes before [10].
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		if digit(a[0]) && digit(b[0]) {
			x, y := digits(a), digits(b)
			if c := cmp.Or(len(x)-len(y), strings.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[len(x):], b[len(y):]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// digits gives the digits that a text begins with.
func digits(s string) string {
	n := 0
	for n < len(s) && digit(s[n]) {
		n++
	}
	return s[:n]
}

// resourceOf takes the values apart. What stays as it is is counted; what is hidden is shown as such, since nobody here can tell
// whether it changes.
func resourceOf(c work.ResourceChange) planResource {
	r := planResource{address: c.Address, kind: c.Type}
	before, wasMap := c.Before.(map[string]any)
	after, isMap := c.After.(map[string]any)
	if !wasMap && !isMap {
		if c.Before != nil || c.After != nil {
			r.values = append(r.values, valueOfChange("value", c.Before, c.After))
		}
		return r
	}
	names := maps.Clone(before)
	if names == nil {
		names = map[string]any{}
	}
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, is := before[name], after[name]
		v := valueOfChange(name, was, is)
		switch {
		case was == nil && is == nil:
		case !v.hidden && reflect.DeepEqual(was, is), len(r.values) == mostValues:
			r.same++
		default:
			r.values = append(r.values, v)
		}
	}
	return r
}

func valueOfChange(name string, before, after any) planValue {
	v := planValue{name: name, before: textOf(before), after: textOf(after)}
	v.hidden = (before == nil || before == hiddenText) && (after == nil || after == hiddenText)
	return v
}

// textOf writes a value for people: a text as it is, anything else as JSON.
func textOf(value any) string {
	text := ""
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		if text = v; v == "" {
			text = `""`
		}
	default:
		b, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return "(not readable)"
		}
		text = string(b)
	}
	if len(text) > longValue {
		text = strings.ToValidUTF8(text[:longValue], "") + fmt.Sprintf("… and %d bytes more", len(text)-longValue)
	}
	return text
}

// planPage gives the address of a page of the plan.
func (v *visit) planPage(from int) string {
	if from <= 0 {
		return v.with("plan", "") + "#plan"
	}
	return v.with("plan", strconv.Itoa(from)) + "#plan"
}
