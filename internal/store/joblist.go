package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"legwork/internal/work"
)

// JobFilter narrows a listing of Jobs. Zero fields match all.
type JobFilter struct {
	Statuses     []work.Status
	ModuleID     string
	RunnerID     string
	Action       work.Action
	Kind         work.Kind
	RunbookID    string
	Since, Until time.Time // created at or after, and before
	// Search is part of a Module's path or of the name of who created the Job, or its number: "42", "#42". Capitals of ASCII are
	// the same as small letters.
	Search string
	// WithoutChores leaves out what the Server has done again and again by itself: discoveries, and launches and tidies of Runners.
	WithoutChores bool
	BeforeNumber  int64 // for paging: only Jobs with a smaller number
	OldestFirst   bool  // the smallest number first
	AfterNumber   int64 // for paging with OldestFirst: only jobs with a larger number
	Limit         int   // 1 to 1000; 0 = 100
}

// noChore is the condition of WithoutChores; the index jobs_no_chores has the same words.
const noChore = "(kind <> 'discovery' AND (kind <> 'runner' OR action NOT IN ('launch', 'tidy')))"

// searchDepth is how many jobs one search examines, in the order of the list. JobPage continues from there.
const searchDepth = 10_000

// clockSlack is how much later a Job with a smaller number may have been created: transactions begin in another order than they
// get numbers, and the clocks of Servers differ.
const clockSlack = time.Minute

// Jobs lists Jobs of an Organization, newest first.
func (tx *Tx) Jobs(org string, f JobFilter) ([]*work.Job, error) {
	jobs, _, err := tx.JobPage(org, f)
	return jobs, err
}

// JobPage lists jobs of an organization, newest first unless OldestFirst is set. next is where the following
// page begins (BeforeNumber, or AfterNumber with OldestFirst), 0 when there is none. A page can hold fewer jobs than
// its limit, or none, and still be followed by another one: a search examines a limited number of jobs.
func (tx *Tx) JobPage(org string, f JobFilter) (jobs []*work.Job, next int64, err error) {
	limit := bounded(f.Limit, 100, 1000)
	q, rest, err := tx.jobQuery(org, f)
	if err != nil || q == nil {
		return nil, 0, err
	}
	// One more tells whether a page follows.
	if jobs, err = list(tx, scanJob, q.text(statusBranches(f.Statuses), limit+1), q.args...); err != nil {
		return nil, 0, err
	}
	if len(jobs) > limit {
		return jobs[:limit], jobs[limit-1].Number, nil
	}
	return jobs, rest, nil
}

// jobQuery is a listing under way: its conditions and their arguments.
type jobQuery struct {
	with  string // what is looked up once, before the rest
	where []string
	args  []any
	order string // the ORDER BY clause of the list
	from  []jobSource
}

// jobSource selects some of the jobs, in the order of the list.
type jobSource struct{ table, where, order string }

// numberRange is the range of job numbers that a list is about. A bound of 0 does not exclude any job.
type numberRange struct {
	after, before int64 // exclusive
	empty         bool  // no job can match
}

const (
	oldestFirst = "number"
	newestFirst = "number DESC"
)

// ofRunner has Jobs listed that a Runner has or had: those that are bound to it, and Runbook Jobs by their Parts. The number of a Part is below zero
// and goes with that of its Job (numberColumn), so that both are read in order, off the index of a Runner's Jobs.
func (q *jobQuery) ofRunner(id string, in numberRange) {
	q.args = append(q.args, id)
	n := len(q.args)
	bounds := ""
	bound := func(condition string, number int64) {
		q.args = append(q.args, number)
		bounds += fmt.Sprintf(" AND p.number %s $%d", condition, len(q.args))
	}
	if in.before > 0 {
		bound(">", -in.before*partsOfNumber)
	}
	if in.after > 0 {
		bound("<=", -(in.after+1)*partsOfNumber)
	}
	place := "place" // the negative of the number
	if q.order == oldestFirst {
		place = "place DESC"
	}
	own := fmt.Sprintf("number > 0 AND runner_id = $%d AND runner_id <> ''", n)
	ofParts := fmt.Sprintf(`(SELECT j.*, p.number AS place FROM jobs p JOIN jobs j ON j.id = p.parent_id
		WHERE p.org = $1 AND p.runner_id = $%[1]d AND p.runner_id <> '' AND p.number < 0 AND p.parent_id <> ''%[2]s
		AND NOT EXISTS (SELECT 1 FROM jobs other WHERE other.parent_id = p.parent_id AND other.parent_id <> ''
			AND other.number > p.number AND other.runner_id = p.runner_id)) AS of_parts`, n, bounds)
	q.from = []jobSource{
		{table: "jobs", where: own, order: q.order},
		{table: ofParts, where: "number > 0", order: place},
	}
}

// add adds a condition, in which %[1]d stands for the number of its argument.
func (q *jobQuery) add(condition string, v any) {
	q.args = append(q.args, v)
	q.where = append(q.where, fmt.Sprintf(condition, len(q.args)))
}

// jobQuery collects the conditions of a filter except the states. It is nil when no job can match. rest is where the
// next page of a search continues, 0 when the search examines all jobs.
func (tx *Tx) jobQuery(org string, f JobFilter) (q *jobQuery, rest int64, err error) {
	q = &jobQuery{where: []string{"org = $1"}, args: []any{org}, order: newestFirst}
	if f.OldestFirst {
		q.order = oldestFirst
	}
	q.from = []jobSource{{table: "jobs", where: "number > 0", order: q.order}}
	if f.Kind != "" {
		q.add("kind = $%[1]d", string(f.Kind))
	}
	if f.WithoutChores {
		q.where = append(q.where, noChore)
	}
	if f.RunbookID != "" {
		q.add("runbook_id = $%[1]d AND runbook_id <> ''", f.RunbookID)
	}
	if f.ModuleID != "" {
		q.add("module_id = $%[1]d", f.ModuleID)
	}
	if f.Action != "" {
		q.add("action = $%[1]d", string(f.Action))
	}
	in, err := tx.boundTimes(q, org, f)
	if err != nil || in.empty {
		return nil, 0, err
	}
	if number, ok := numberIn(f.Search); ok {
		q.add("number = $%[1]d", number)
	} else if f.Search != "" {
		if rest, err = tx.boundSearch(q, org, f.Search, in); err != nil {
			return nil, 0, err
		}
	}
	if in.before > 0 {
		q.add("number < $%[1]d", in.before)
	}
	if in.after > 0 {
		q.add("number > $%[1]d", in.after)
	}
	if f.RunnerID != "" {
		q.ofRunner(f.RunnerID, in)
	}
	return q, rest, nil
}

// boundTimes adds the conditions of time and returns the range of numbers that can match. Lists are in the order of
// numbers, so times are turned into numbers as well.
func (tx *Tx) boundTimes(q *jobQuery, org string, f JobFilter) (in numberRange, err error) {
	in = numberRange{after: f.AfterNumber, before: f.BeforeNumber}
	first := func(from time.Time) (int64, bool, error) {
		return find(tx, value[int64], "SELECT number FROM jobs WHERE org = $1 AND number > 0 AND created_at >= $2 ORDER BY created_at, number LIMIT 1", org, micros(from))
	}
	if !f.Since.IsZero() {
		q.add("created_at >= $%[1]d", micros(f.Since))
		low, ok, err := first(f.Since.Add(-clockSlack))
		if err != nil || !ok {
			return numberRange{empty: true}, err
		}
		in.after = max(in.after, low-1)
	}
	if !f.Until.IsZero() {
		q.add("created_at < $%[1]d", micros(f.Until))
		high, ok, err := first(f.Until.Add(clockSlack))
		if err != nil {
			return in, err
		}
		if ok && (in.before == 0 || high < in.before) {
			in.before = high
		}
	}
	return in, nil
}

// boundSearch adds the condition of a search that examines searchDepth jobs of a range, in the order of the list. rest
// is where the next page continues, 0 when the search examines the whole range.
func (tx *Tx) boundSearch(q *jobQuery, org, text string, in numberRange) (rest int64, err error) {
	if in.before == 0 {
		in.before, _, err = find(tx, value[int64], "SELECT last_number + 1 FROM organizations WHERE id = $1", org)
		if err != nil {
			return 0, err
		}
	}
	if in.before-in.after-1 > searchDepth {
		if q.order == oldestFirst {
			rest = in.after + searchDepth
			in.before = rest + 1
		} else {
			rest = in.before - searchDepth
			in.after = rest - 1
		}
	}
	q.args = append(q.args, in.before, in.after, "%"+likeLiteral(lowerASCII(text))+"%")
	n := len(q.args)
	q.with = fmt.Sprintf(`WITH found AS NOT MATERIALIZED (SELECT number FROM jobs
		WHERE org = $1 AND number < $%d AND number > $%d AND lower(module_path || ' ' || created_by) LIKE $%d ESCAPE '\') `, n-2, n-1, n)
	q.where = append(q.where, "number IN (SELECT number FROM found)")
	return rest, nil
}

// numberIn reads the number of a Job as people write it.
func numberIn(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimPrefix(text, "#"), 10, 64)
	return n, err == nil
}

// likeLiteral has every character of a text stand for itself in a pattern.
func likeLiteral(text string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text)
}

// lowerASCII does what lower() does in both databases.
func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// statusBranch is a condition on the state for which there is an index.
type statusBranch struct {
	phase    string
	statuses []work.Status
}

// statusBranches parts the states by their indexes: each that is over has its own range, those alive are few.
func statusBranches(statuses []work.Status) []statusBranch {
	var branches []statusBranch
	alive := statusBranch{phase: "phase < 2"}
	for i, s := range statuses {
		switch {
		case slices.Contains(statuses[:i], s):
		case s.Terminal():
			branches = append(branches, statusBranch{"phase = 2", []work.Status{s}})
		default:
			alive.statuses = append(alive.statuses, s)
		}
	}
	if len(alive.statuses) > 0 {
		branches = append(branches, alive)
	}
	return branches
}

// text returns the statement. With several branches, or sources, each returns the first numbers of its own, of which
// the first are taken.
func (q *jobQuery) text(branches []statusBranch, limit int) string {
	q.args = append(q.args, limit)
	most := fmt.Sprintf(" LIMIT $%d", len(q.args))
	conditions := []string{strings.Join(q.where, " AND ")}
	for i, b := range branches {
		condition := fmt.Sprintf("%s AND %s AND status IN (%s)", strings.Join(q.where, " AND "), b.phase, marks(len(q.args)+1, len(b.statuses)))
		for _, s := range b.statuses {
			q.args = append(q.args, string(s))
		}
		conditions = append(conditions[:i], condition)
	}
	if len(conditions) == 1 && len(q.from) == 1 {
		// The statement ends as soon as there are enough.
		where := q.from[0].where + " AND " + conditions[0]
		return q.with + selectJob + " WHERE " + where + " ORDER BY " + q.order + most
	}
	var parts []string
	for _, from := range q.from {
		for _, condition := range conditions {
			parts = append(parts, fmt.Sprintf("SELECT number FROM (SELECT number FROM %s WHERE %s AND %s ORDER BY %s%s) AS part_%d",
				from.table, from.where, condition, from.order, most, len(parts)))
		}
	}
	return strings.Replace(q.with, "NOT MATERIALIZED", "MATERIALIZED", 1) + selectJob +
		" WHERE org = $1 AND number IN (" + strings.Join(parts, " UNION ALL ") + ") ORDER BY " + q.order + most
}

// LongestWaiting gives the Jobs of an Organization that wait, the oldest number first, at most limit (1 to 1000; 0 = 100).
func (tx *Tx) LongestWaiting(org string, limit int) ([]*work.Job, error) {
	return list(tx, scanJob, longestWaiting, org, bounded(limit, 100, 1000))
}

// It goes by the index of the Jobs that are not over; a queue is most of them.
const longestWaiting = selectJob + " WHERE org = $1 AND number > 0 AND phase < 2 AND status = 'queued' ORDER BY number LIMIT $2"

// CountOver counts the Jobs of an Organization that came to an end and were created at or after since, at most 10,000 of them.
func (tx *Tx) CountOver(org string, s work.Status, since time.Time) (int, error) {
	n, _, err := find(tx, value[int], countOver, org, string(s), micros(since))
	return n, err
}

// The order of the index jobs_over is that of numbers, so the time is turned into one.
const countOver = `SELECT count(*) FROM (SELECT number FROM jobs WHERE org = $1 AND phase = 2 AND status = $2 AND number >=
	coalesce((SELECT number FROM jobs WHERE org = $1 AND number > 0 AND created_at >= $3 ORDER BY created_at, number LIMIT 1), 9223372036854775807) LIMIT 10000) AS newest`

// CountAlive counts the Jobs of an Organization that are not over, by status; a status without Jobs is missing.
func (tx *Tx) CountAlive(org string) (map[work.Status]int, error) {
	counts := map[work.Status]int{}
	scan := func(r row) (struct{}, error) {
		var s work.Status
		var n int
		err := r.Scan(&s, &n)
		counts[s] = n
		return struct{}{}, err
	}
	_, err := list(tx, scan, "SELECT status, count(*) FROM jobs WHERE org = $1 AND number > 0 AND phase < 2 GROUP BY status", org)
	return counts, err
}
