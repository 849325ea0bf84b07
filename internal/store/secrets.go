package store

import (
	"encoding/json"

	"legwork/internal/catalog"
)

const selectSecret = "SELECT " + identityColumns + `, r.stack_id, coalesce(r.namespace_id, ''), coalesce(r.module_id, ''), coalesce(r.runbook_id, ''),
	r.name, r.changed_at, r.changed_by, s.name, coalesce(n.name, ''), coalesce(m.name, ''), coalesce(b.name, '')
	FROM secrets r JOIN stacks s ON s.id = r.stack_id LEFT JOIN namespaces n ON n.id = r.namespace_id
	LEFT JOIN modules m ON m.id = r.module_id LEFT JOIN runbooks b ON b.id = r.runbook_id WHERE r.org = $1`

// secretOrder is by scope, and then by name.
var secretOrder = by("s.name", "coalesce(n.name, '')", "coalesce(m.name, '')", "coalesce(b.name, '')", "r.name")

func scanSecret(r row) (s catalog.Secret, err error) {
	var changed int64
	var name, stack, namespace, module, runbook string
	err = identity(r, &s.Identity, &s.SecretSpec, &s.StackID, &s.NamespaceID, &s.ModuleID, &s.RunbookID, &name, &changed, &s.ChangedBy,
		&stack, &namespace, &module, &runbook)
	s.ChangedAt, s.Name = moment(changed), name
	s.Scope = catalog.Scope{Stack: stack, Namespace: namespace, Module: module, Runbook: runbook}.String()
	return s, err
}

// Secrets gives the Secrets of a Stack, or of all Stacks when stackID is empty, by scope and name. Their values are not among it.
func (tx *Tx) Secrets(org, stackID string, pages ...Page) ([]catalog.Secret, error) {
	return listPage(tx, scanSecret, secretOrder, pages, selectSecret+" AND ($2 = '' OR r.stack_id = $2)", org, stackID)
}

// Secret finds a Secret by its id.
func (tx *Tx) Secret(org, id string) (catalog.Secret, error) {
	return need(tx, absent("Secret", "secret", id), scanSecret, selectSecret+" AND r.id = $2", org, id)
}

// SecretsNamed gives the Secrets of a Stack that have one of the names, of all scopes in it.
func (tx *Tx) SecretsNamed(org, stackID string, names []string) ([]catalog.Secret, error) {
	if len(names) == 0 {
		return nil, nil
	}
	args := []any{org, stackID}
	for _, name := range names {
		args = append(args, name)
	}
	return listPage(tx, scanSecret, secretOrder, nil, selectSecret+" AND r.stack_id = $2 AND r.name IN ("+marks(3, len(names))+")", args...)
}

// CountSecrets counts the Secrets of a Stack.
func (tx *Tx) CountSecrets(org, stackID string) (int, error) {
	n, _, err := find(tx, value[int], "SELECT count(*) FROM secrets WHERE org = $1 AND stack_id = $2", org, stackID)
	return n, err
}

// PutSecret creates the Secret when its ID is empty, else replaces it, but for its value: see SealSecret. The ids in it count, not Scope.
// It sets ID and times; ChangedAt becomes now.
func (tx *Tx) PutSecret(s *catalog.Secret) error {
	doc, err := document(s.SecretSpec)
	if err != nil {
		return err
	}
	scope := s.StackID
	for _, id := range []string{s.NamespaceID, s.ModuleID, s.RunbookID} {
		if id != "" {
			scope = id
		}
	}
	s.ChangedAt = tx.now
	return tx.put(record{
		what: "Secret", code: "secret", table: "secrets", name: s.Path(), id: &s.Identity,
		columns: []string{"stack_id", "namespace_id", "module_id", "runbook_id", "scope_id", "name", "doc", "changed_at", "changed_by"},
		values: []any{s.StackID, orNull(s.NamespaceID), orNull(s.ModuleID), orNull(s.RunbookID), scope, s.Name, doc,
			micros(s.ChangedAt), s.ChangedBy},
	})
}

// SealSecret stores the value of a Secret, sealed by the caller; nil for a reference.
func (tx *Tx) SealSecret(org, id string, sealed []byte) error {
	n, err := tx.exec("UPDATE secrets SET sealed = $3 WHERE org = $1 AND id = $2", org, id, sealed)
	if err == nil && n == 0 {
		err = absent("Secret", "secret", id)
	}
	return err
}

// SealedSecret gives the value of a Secret as SealSecret stored it.
func (tx *Tx) SealedSecret(org, id string) ([]byte, error) {
	return need(tx, absent("Secret", "secret", id), value[[]byte], "SELECT sealed FROM secrets WHERE org = $1 AND id = $2", org, id)
}

// DeleteSecret deletes a Secret.
func (tx *Tx) DeleteSecret(org, id string) error {
	return tx.remove("Secret", "secret", "secrets", org, id)
}

// SealedRow is one row of a table that holds sealed values, for whoever seals them anew: Doc is a whole column.
type SealedRow struct {
	Key   string // of the row; the first one that is looked at is behind ""
	Org   string
	Owner string // id of what the values belong to: the Module of a snapshot, the Attempt of resolved Inputs, "module/job" of outputs
	Doc   []byte
}

// SealedTable names a table that holds sealed values.
type SealedTable string

// The tables that hold sealed values.
const (
	SealedNamespaces SealedTable = "namespaces"
	SealedModules    SealedTable = "modules"
	SealedSnapshots  SealedTable = "job_snapshots"
	SealedInputs     SealedTable = "job_inputs"
	SealedOutputs    SealedTable = "output_sets"
	SealedWebhooks   SealedTable = "webhooks"
	SealedKeys       SealedTable = "server_keys"
	SealedSecrets    SealedTable = "secrets"
	SealedIdentities SealedTable = "cloud_identities"
	SealedApplied    SealedTable = "applied_inputs"
	SealedAnswers    SealedTable = "idempotency_keys"
)

// SealedTables lists them.
var SealedTables = []SealedTable{SealedKeys, SealedSecrets, SealedIdentities, SealedNamespaces, SealedModules, SealedOutputs,
	SealedWebhooks, SealedInputs, SealedApplied, SealedSnapshots, SealedAnswers}

// sealedTable is how a SealedTable is read: the columns key, org, owner and document of a row.
type sealedTable struct{ from, key, org, owner, doc string }

var sealedTables = map[SealedTable]sealedTable{
	SealedNamespaces: {"namespaces t", "id", "t.org", "t.id", "doc"},
	SealedModules:    {"modules t", "id", "t.org", "t.id", "doc"},
	SealedSnapshots:  {"job_snapshots t JOIN jobs j ON j.id = t.job_id", "job_id", "j.org", "j.module_id", "doc"},
	SealedInputs:     {"job_inputs t JOIN jobs j ON j.id = t.job_id", "job_id", "j.org", "CAST(t.attempt AS TEXT)", "sealed"},
	SealedApplied:    {"applied_inputs t", "module_id", "t.org", "t.job_id || '/' || CAST(t.attempt AS TEXT)", "sealed"},
	SealedOutputs:    {"output_sets t", "id", "t.org", "t.module_id || '/' || t.job_id", "doc"},
	SealedWebhooks:   {"webhooks t", "runner_id", "t.org", "t.runner_id", "doc"},
	SealedKeys:       {"server_keys t", "name", "''", "t.name", "value"},
	SealedSecrets:    {"secrets t", "id", "t.org", "t.id", "sealed"},
	SealedAnswers:    {"idempotency_keys t", "id", "t.org", "t.id", "answer"},
	SealedIdentities: {"cloud_identities t", "id", "t.org", "t.id", "sealed"},
}

// SealedRows gives the rows of a table behind a key, by key, at most so many. In an Update nobody else changes them until its end.
func (tx *Tx) SealedRows(table SealedTable, after string, most int) ([]SealedRow, error) {
	t := sealedTables[table]
	scan := func(r row) (s SealedRow, err error) {
		err = r.Scan(&s.Key, &s.Org, &s.Owner, &s.Doc)
		return s, err
	}
	lock := ""
	if tx.forUpdate() != "" {
		lock = tx.forUpdate() + " OF t"
	}
	query := "SELECT t." + t.key + ", " + t.org + ", " + t.owner + ", t." + t.doc + " FROM " + t.from +
		" WHERE t." + t.key + " > $1 AND t." + t.doc + " IS NOT NULL ORDER BY t." + t.key + " LIMIT $2" + lock
	return list(tx, scan, query, after, most)
}

// PutSealedRow stores the document of a row that SealedRows gave in the same Update. Nothing else of the record changes.
func (tx *Tx) PutSealedRow(table SealedTable, r SealedRow) error {
	t := sealedTables[table]
	var doc any = r.Doc
	if t.doc == "doc" {
		doc = string(r.Doc)
	}
	_, err := tx.exec("UPDATE "+string(table)+" SET "+t.doc+" = $2 WHERE "+t.key+" = $1", r.Key, doc)
	return err
}

// PutSecretPaths keeps what a Job found that lists where Secrets can be had.
func (tx *Tx) PutSecretPaths(jobID string, paths []string) error {
	doc, err := document(paths)
	if err != nil {
		return err
	}
	_, err = tx.exec("INSERT INTO secret_paths (job_id, doc) VALUES ($1, $2) ON CONFLICT (job_id) DO UPDATE SET doc = excluded.doc", jobID, doc)
	return err
}

// SecretPaths gives what PutSecretPaths kept, nil when there is nothing.
func (tx *Tx) SecretPaths(org, jobID string) (paths []string, err error) {
	doc, ok, err := find(tx, value[[]byte], "SELECT p.doc FROM secret_paths p JOIN jobs j ON j.id = p.job_id WHERE p.job_id = $1 AND j.org = $2", jobID, org)
	if err != nil || !ok {
		return nil, err
	}
	return paths, json.Unmarshal(doc, &paths)
}
