// Command terraform-provider-legwork is a provider for tests alone: its one resource, legwork_thing, sleeps,
// fails or hangs as it is told, and touches nothing but the files it is told to append to.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

func main() {
	err := providerserver.Serve(context.Background(), func() provider.Provider { return legwork{} },
		providerserver.ServeOpts{Address: "example.com/legwork/legwork"})
	if err != nil {
		log.Fatal(err)
	}
}

type legwork struct{}

func (legwork) Metadata(_ context.Context, _ provider.MetadataRequest, r *provider.MetadataResponse) {
	r.TypeName = "legwork"
}
func (legwork) Schema(context.Context, provider.SchemaRequest, *provider.SchemaResponse) {}
func (legwork) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {
}
func (legwork) DataSources(context.Context) []func() datasource.DataSource { return nil }
func (legwork) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return thing{} }}
}

// thing is the resource legwork_thing.
type thing struct{}

type model struct {
	ID     types.String `tfsdk:"id"`
	Value  types.String `tfsdk:"value"`  // changes in place
	Key    types.String `tfsdk:"key"`    // replaces
	Secret types.String `tfsdk:"secret"` // sensitive
	Do     types.String `tfsdk:"do"`     // a Go duration to sleep, "fail" or "hang"; on create and update
	Trace  types.String `tfsdk:"trace"`  // a file that gets a line when the work begins and when it ends
}

func (thing) Metadata(_ context.Context, r resource.MetadataRequest, out *resource.MetadataResponse) {
	out.TypeName = r.ProviderTypeName + "_thing"
}

func (thing) Schema(_ context.Context, _ resource.SchemaRequest, r *resource.SchemaResponse) {
	optional := schema.StringAttribute{Optional: true}
	r.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"id":     schema.StringAttribute{Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()}},
		"value":  optional,
		"key":    schema.StringAttribute{Optional: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()}},
		"secret": schema.StringAttribute{Optional: true, Sensitive: true},
		"do":     optional,
		"trace":  optional,
	}}
}

func (thing) Create(ctx context.Context, r resource.CreateRequest, out *resource.CreateResponse) {
	var m model
	if out.Diagnostics.Append(r.Plan.Get(ctx, &m)...); out.Diagnostics.HasError() {
		return
	}
	if out.Diagnostics.Append(m.work(ctx, "create")...); out.Diagnostics.HasError() {
		return
	}
	m.ID = types.StringValue(fmt.Sprintf("thing-%d", time.Now().UnixNano()))
	out.Diagnostics.Append(out.State.Set(ctx, &m)...)
}

func (thing) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

func (thing) Update(ctx context.Context, r resource.UpdateRequest, out *resource.UpdateResponse) {
	var m model
	if out.Diagnostics.Append(r.Plan.Get(ctx, &m)...); out.Diagnostics.HasError() {
		return
	}
	if out.Diagnostics.Append(m.work(ctx, "update")...); out.Diagnostics.HasError() {
		return
	}
	out.Diagnostics.Append(out.State.Set(ctx, &m)...)
}

func (thing) Delete(ctx context.Context, r resource.DeleteRequest, out *resource.DeleteResponse) {
	var m model
	if out.Diagnostics.Append(r.State.Get(ctx, &m)...); !out.Diagnostics.HasError() {
		m.trace("delete")
	}
}

// work does what the resource is told to do. It ends early when the engine asks it to stop.
func (m model) work(ctx context.Context, verb string) (d diag.Diagnostics) {
	m.trace(verb + " begins")
	defer m.trace(verb + " ends")
	var wait <-chan time.Time // for ever
	switch do := m.Do.ValueString(); do {
	case "":
		return nil
	case "fail":
		d.AddError("Told to fail", "The resource was told to fail.")
		return d
	case "hang":
	default:
		pause, err := time.ParseDuration(do)
		if err != nil {
			d.AddError("Unknown work", err.Error())
			return d
		}
		wait = time.After(pause)
	}
	select {
	case <-wait:
	case <-ctx.Done():
		d.AddError("Stopped", "The engine asked the provider to stop.")
	}
	return d
}

func (m model) trace(line string) {
	if m.Trace.ValueString() == "" {
		return
	}
	f, err := os.OpenFile(m.Trace.ValueString(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintln(f, line)
}
