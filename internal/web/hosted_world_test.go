package web_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"legwork/internal/api/apitest"
	"legwork/internal/catalog"
	"legwork/internal/release"
	"legwork/internal/store"
	"legwork/internal/wire"
	"legwork/internal/work"
)

// launches has Instances that connect from now on say that they can do a launcher's work, and of which release they are.
func launches(w *apitest.World, version string, consent release.Consent) {
	w.Says = func(h *wire.Hello) {
		h.Engines["launcher"] = "1"
		h.Version, h.Updates = version, string(consent)
	}
}

const notes = `## New

- Runners that Legwork starts and stops **by itself**: processes, containers, Kubernetes, AWS Fargate
- ` + "`legwork runner deploy`" + `, see [the documentation](https://example.com/docs/hosting)

## Fixed

1. A Step that is sent twice counts once.
2. <script>alert("not this")</script> ![picture](https://example.com/x.png)
`

// fillHosted makes hosted Runners: one that is being deployed through shop-1, with a ledger, and one in a cloud that has nothing to do.
func fillHosted(t *testing.T, w *apitest.World, world map[string]string) {
	t.Helper()
	ctx, now := context.Background(), time.Now()
	w.Publish("1.4.0", "Nothing that lasts.")
	_, err := w.Control.WithdrawRelease(ctx, owner(w), "1.4.0")
	w.Must(err)
	for _, version := range []string{"1.4.9", "1.5.0", "1.6.0-rc.1"} {
		w.Publish(version, notes)
	}
	_, err = w.Control.PutCloudIdentity(ctx, owner(w), catalog.CloudIdentitySpec{Name: "aws-prod", Description: "The account of production", Provider: "aws", Region: "eu-central-1",
		RoleARN: "arn:aws:iam::123456789012:role/legwork", ExternalID: "legwork-1", AccessKeyID: "AKIAIOSFODNN7EXAMPLE", SecretAccessKey: "kept/and/never/shown"})
	w.Must(err)
	made, err := w.Control.CreateRunner(ctx, owner(w), catalog.RunnerSpec{Name: "burst", Description: "For what comes all at once", Labels: map[string]string{"net": "private"},
		Hosting: &catalog.Hosting{Launcher: catalog.LaunchProcess, Through: "shop-1", Max: 8, LaunchTimeout: catalog.Duration(time.Hour)}})
	w.Must(err)
	_, err = w.Control.CreateRunner(ctx, owner(w), catalog.RunnerSpec{Name: "fargate", Hosting: &catalog.Hosting{Launcher: catalog.LaunchECS, Region: "eu-central-1", CloudIdentity: "aws-prod",
		Size: catalog.SizeLarge, Max: 20, Warm: 2, OneOff: true, AutoUpdate: true, ECS: &catalog.ECSHosting{Subnets: []string{"subnet-0a1b2c3d4e5f60718"}}}})
	w.Must(err)
	past := made.Runner
	w.Must(w.Store.Update(ctx, func(tx *store.Tx) error {
		for i, l := range []store.Launch{
			{Name: "burst-0a1b2c3d", State: store.LaunchGivenUp, Why: "1 Job waits", EndedWhy: "it did not come online within 1m0s", EndedAt: now.Add(time.Minute)},
			{Name: "burst-4e5f6071", State: store.LaunchEnded, Why: "1 Job waits, the launch before it was given up", EndedWhy: "it was idle for 5m0s", OnlineAt: now.Add(1200 * time.Millisecond), EndedAt: now.Add(27 * time.Minute)},
		} {
			l.OrganizationID, l.RunnerID, l.Launcher, l.ExternalID, l.Version, l.Stopped = past.OrganizationID, past.ID, "process", strconv.Itoa(4000+i), "1.4.0", true
			if err := tx.InsertLaunch(&l); err != nil {
				return err
			}
		}
		return nil
	}))
	j, err := w.Control.DeployRunner(ctx, owner(w), "burst")
	w.Must(err)
	world["deploy"] = strconv.FormatInt(j.Number, 10)
	eventually(t, "an Instance is waited for", func() bool {
		j, err := w.Control.Job(ctx, owner(w), j.ID)
		w.Must(err)
		return runs(j, work.StepOnline)
	})
}
