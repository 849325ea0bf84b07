package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples are the command lines that --help shows for commands whose use is plain. Other commands have examples of
// their own.
var examples = []string{
	`assignment create edge-1 prod/network`,
	`assignment delete edge-1 prod/network`,
	`assignment list`,
	`audit export --since 720h > audit.jsonl`,
	`audit list --actor alice --since 24h`,
	`cloud-identity delete deploy`,
	`cloud-identity list`,
	`cloud-identity set deploy --provider aws --region eu-central-1 --role-arn arn:aws:iam::123456789012:role/deploy`,
	`cloud-identity show deploy`,
	`dev examples/quickstart`,
	`job approve 42`,
	`job cancel 42 --reason "wrong module"`,
	`job decline 42 --reason "the plan deletes the database"`,
	`job list --status failed --since 24h`,
	`job logs 42 --follow`,
	`job plan 42`,
	`job show 42`,
	`load --last 1h`,
	`maintenance off`,
	`maintenance on --reason "database upgrade"`,
	`maintenance status`,
	`manifest apply infrastructure/`,
	`manifest diff infrastructure/`,
	`manifest export > infrastructure.yaml`,
	`module apply prod/network/vpc`,
	`module destroy prod/network/vpc`,
	`module list`,
	`module plan prod/network/vpc`,
	`module run prod/tools/report`,
	`module show prod/network/vpc`,
	`namespace delete prod/network`,
	`namespace list`,
	`principal create ci --role operator --secret`,
	`principal credential create ci --expires 720h`,
	`principal credential delete ci 0192c5a8-7a3b-7c1d-9e4f-2b6a8d0c1e3f`,
	`principal credential list ci`,
	`principal delete ci`,
	`principal list`,
	`release keygen release.key`,
	`release list`,
	`release publish dist/ --channel stable`,
	`release show 1.4.0`,
	`release sign dist/ --version 1.4.0 --key release.key`,
	`release withdraw 1.4.0`,
	`runner create edge-1 --label region=eu --all-modules`,
	`runner credential edge-1`,
	`runner delete edge-1`,
	`runner demand edge-1`,
	`runner deploy edge-1`,
	`runner disable edge-1`,
	`runner drain edge-1 --wait --timeout 10m`,
	`runner enable edge-1`,
	`runner instance remove edge-1/host-a`,
	`runner launches edge-1`,
	`runner list`,
	`runner register --url https://legwork.example.com --name edge-1 --stdin-registration-token < token`,
	`runner remove edge-1`,
	`runner resume edge-1`,
	`runner setup --config runner.json`,
	`runner show edge-1`,
	`runner start --config runner.json`,
	`runner token create edge --uses 5 --expires 24h`,
	`runner token list`,
	`runner token revoke edge`,
	`runner unregister --config runner.json`,
	`runner update edge-1 --version 1.4.0`,
	`runner webhook edge-1 --test`,
	`schema manifest > manifest.schema.json`,
	`secret delete registry-token --scope prod`,
	`secret list --stack prod`,
	`secret set registry-token --scope prod < token`,
	`secret show registry-token --scope prod`,
	`server admin-token --data /var/lib/legwork`,
	`server backup verify legwork.backup`,
	`server migrate --data /var/lib/legwork --to postgres://legwork@db.example.com/legwork`,
	`server restore legwork.backup --data /var/lib/legwork`,
	`server resume`,
	`server rotate-key --data-folder /var/lib/legwork`,
	`server status`,
	`stack delete prod`,
	`stack list`,
	`user create alice --role operator`,
	`user delete alice`,
	`user list`,
	`user logout alice`,
	`user sessions alice`,
	`user set-password alice`,
	`user set-role alice operator`,
	`version`,
}

// addExamples sets the example of each command in the table.
func addExamples(root *cobra.Command) {
	for _, line := range examples {
		cmd, _, err := root.Find(strings.Fields(line))
		if err == nil && cmd.Example == "" {
			cmd.Example = "  legwork " + line
		}
	}
}
