package store

import (
	"context"
	"database/sql"
)

// session is one connection to SQLite with the statements it has prepared: preparing is what costs most.
type session struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

// stmtsKept bounds the prepared statements of a session.
const stmtsKept = 300

func newSession(ctx context.Context, db *sql.DB) (*session, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, stmts: map[string]*sql.Stmt{}}, nil
}

// prepare gives a prepared statement. Statements are short, so ctx is looked at between them and not during one.
func (s *session) prepare(ctx context.Context, query string) (*sql.Stmt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if st := s.stmts[query]; st != nil {
		return st, nil
	}
	if len(s.stmts) >= stmtsKept {
		s.forget()
	}
	st, err := s.conn.PrepareContext(context.Background(), query)
	if err == nil {
		s.stmts[query] = st
	}
	return st, err
}

func (s *session) forget() {
	for _, st := range s.stmts {
		_ = st.Close() // it only frees memory
	}
	clear(s.stmts)
}

// ExecContext runs a statement.
func (s *session) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := s.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(context.Background(), args...)
}

// QueryContext runs a query.
func (s *session) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := s.prepare(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(context.Background(), args...)
}

// do runs a statement of the transaction itself, which the end of a ctx does not stop.
func (s *session) do(query string) error {
	_, err := s.ExecContext(context.Background(), query)
	return err
}

func (s *session) close() error {
	s.forget()
	return s.conn.Close()
}
