package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"legwork/internal/access"
	"legwork/internal/catalog"
	"legwork/internal/control"
	"legwork/internal/fault"
)

// registerPath is the one path of the API that takes a registration token in place of a bearer token.
const registerPath = prefix + "/runners/register"

// RegistrationToken lets Runners register themselves. The token itself is in no answer but the one that made it.
type RegistrationToken struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Labels     map[string]string `json:"labels,omitempty" doc:"Those that a Runner may have."`
	GiveLabels bool              `json:"give_labels,omitempty" doc:"It gets all of them."`
	UsesLeft   int64             `json:"uses_left" doc:"-1: any number."`
	CreatedBy  string            `json:"created_by"`
	CreatedAt  time.Time         `json:"created_at"`
	ExpiresAt  time.Time         `json:"expires_at"`
	LastUsedAt time.Time         `json:"last_used_at,omitzero" doc:"Missing: not yet."`
}

// RegistrationTokenRequest asks for a RegistrationToken.
type RegistrationTokenRequest struct {
	Name       string            `json:"name,omitempty" maxLength:"63" doc:"To tell it from others. Default registration."`
	ExpiresIn  catalog.Duration  `json:"expires_in,omitempty" doc:"From now. Default 24h."`
	Uses       int64             `json:"uses,omitempty" doc:"How many registrations. Default 1; -1 is any number."`
	Labels     map[string]string `json:"labels,omitempty" doc:"Those that a Runner may have. Default none."`
	GiveLabels bool              `json:"give_labels,omitempty" doc:"Give a Runner all of them."`
}

// CreatedRegistrationToken is a new RegistrationToken.
type CreatedRegistrationToken struct {
	RegistrationToken
	Token string `json:"token" doc:"Shown this once."`
}

// RegistrationRequest is what a process says to register its Runner. With a credential that it holds already it proves
// to be that Runner.
type RegistrationRequest struct {
	catalog.Registration
	ClientID     string `json:"client_id,omitempty" maxLength:"200" doc:"The bare client id of the credential that the process holds already."`
	ClientSecret string `json:"client_secret,omitempty" maxLength:"512" doc:"It ends once the new one is there."`
}

// UnregisterRequest names the Runner that unregisters. Which Instance of it goes is that of the credential.
type UnregisterRequest struct {
	ID string `json:"id" maxLength:"100"`
}

// Unregistered says what became of a Runner that unregistered.
type Unregistered struct {
	Runner  string `json:"runner"`
	Deleted bool   `json:"deleted" doc:"The Runner; else only this Instance, and others go on."`
}

func (s *Server) registerRegistration(h huma.API) {
	handle(s, h, operation("list-registration-tokens", http.MethodGet, "/registration-tokens", "Registration", "Every registration token"), s.registrationTokens)
	handle(s, h, operation("get-registration-token", http.MethodGet, "/registration-tokens/{id}", "Registration",
		"One registration token, by id or name"),
		func(ctx context.Context, actor catalog.Actor, in *ByID) (*body[RegistrationToken], error) {
			found, err := s.Access.RegistrationTokens(ctx, actor)
			return answerOne("registration_token", in.ID, found, err, registrationTokenOf)
		})
	create := operation("create-registration-token", http.MethodPost, "/registration-tokens", "Registration", "Make a registration token")
	create.DefaultStatus = http.StatusCreated
	handle(s, h, create, s.createRegistrationToken)
	revoke := operation("revoke-registration-token", http.MethodDelete, "/registration-tokens/{id}", "Registration", "Revoke a registration token")
	revoke.Description = "Runners that it registered go on."
	handle(s, h, revoke, func(ctx context.Context, actor catalog.Actor, in *ByID) (*none, error) {
		return nil, s.Access.RevokeRegistrationToken(ctx, actor, in.ID)
	})
	register := operation("register-runner", http.MethodPost, "/runners/register", "Registration", "Register a Runner")
	register.DefaultStatus = http.StatusCreated
	register.Description = "The bearer is a registration token. The Runner is assigned to nothing: an owner does that. A Runner of this name that " +
		"another token or an owner made is a conflict, unless the process proves to be it."
	handle(s, h, register, s.registerRunner)
	unregister := operation("unregister-runner", http.MethodPost, "/runners/unregister", "Registration", "Delete the Runner that one logged in as")
	unregister.Description = "The bearer is a short token of the Runner's own credential. Of a Runner in which further Instances have registered, only the one goes that this credential is of."
	handle(s, h, unregister, s.unregisterRunner)
}

func registrationTokenOf(t access.RegistrationToken) RegistrationToken {
	return RegistrationToken{ID: t.ID, Name: t.Name, Labels: t.Labels, GiveLabels: t.GiveLabels, UsesLeft: t.UsesLeft,
		CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, LastUsedAt: t.LastUsedAt}
}

func (s *Server) registrationTokens(ctx context.Context, actor catalog.Actor,
	in *Page) (*body[listOf[RegistrationToken]], error) {
	key := func(one RegistrationToken) sortKey { return sortKey{microseconds(one.CreatedAt), one.ID} }
	return listPage(in, key, func(p control.Page) ([]RegistrationToken, error) {
		found, err := s.Access.RegistrationTokens(ctx, actor, p)
		return each(found, err, registrationTokenOf)
	})
}

type registrationTokenIn struct{ Body RegistrationTokenRequest }

func (s *Server) createRegistrationToken(ctx context.Context, actor catalog.Actor, in *registrationTokenIn) (*body[CreatedRegistrationToken], error) {
	made, token, err := s.Access.CreateRegistrationToken(ctx, actor, access.RegistrationRequest{Name: in.Body.Name,
		Expires: time.Duration(in.Body.ExpiresIn), Uses: in.Body.Uses, Labels: in.Body.Labels, GiveLabels: in.Body.GiveLabels})
	return answer(CreatedRegistrationToken{RegistrationToken: registrationTokenOf(made), Token: token}, err)
}

type registrationIn struct{ Body RegistrationRequest }

func (s *Server) registerRunner(ctx context.Context, actor catalog.Actor, in *registrationIn) (*body[CreatedRunner], error) {
	by, _ := ctx.Value(registrarKey).(catalog.Registrar)
	proof, err := s.proofOf(ctx, by, in.Body)
	if err != nil {
		return nil, err
	}
	made, err := s.Control.RegisterRunner(ctx, by, in.Body.Registration, proof)
	if err != nil {
		return nil, err
	}
	s.Access.Forget() // the earlier credential has ended
	return answer(createdRunner(made), nil)
}

// proofOf checks the credential that a process holds already. One that is not right proves nothing, and is no error: it
// may have ended.
func (s *Server) proofOf(ctx context.Context, by catalog.Registrar, r RegistrationRequest) (control.Proof, error) {
	if r.ClientSecret == "" {
		return control.Proof{}, nil
	}
	principal, credential, err := s.Access.Prove(ctx, access.Login{ClientID: by.OrganizationID + ":" + r.ClientID,
		ClientSecret: r.ClientSecret, Address: requestOf(ctx).address})
	if fault.Is(err, fault.Unauthenticated) {
		return control.Proof{}, nil
	}
	return control.Proof{PrincipalID: principal, CredentialID: credential}, err
}

type unregisterIn struct{ Body UnregisterRequest }

func (s *Server) unregisterRunner(ctx context.Context, actor catalog.Actor, in *unregisterIn) (*body[Unregistered], error) {
	done, err := s.Control.UnregisterRunner(ctx, actor, in.Body.ID)
	if err != nil {
		return nil, err
	}
	s.Access.Forget()
	return answer(Unregistered{Runner: done.Runner, Deleted: done.Deleted}, nil)
}

// identify tells who makes a request to the API, in its context.
func (s *Server) identify(r *http.Request) (context.Context, error) {
	if r.Method == http.MethodPost && r.URL.Path == registerPath {
		by, err := s.Access.Registrar(r.Context(), bearer(r), requestOf(r.Context()).address)
		by.Address = requestOf(r.Context()).address
		return context.WithValue(r.Context(), registrarKey, by), err
	}
	actor, err := s.Access.Authenticate(r.Context(), bearer(r))
	actor.Address = requestOf(r.Context()).address
	return context.WithValue(r.Context(), actorKey, actor), err
}
