package cli

import "github.com/spf13/cobra"

// rotateKey gives a Server's database new keys.
func (a *app) rotateKey() *cobra.Command {
	data := false
	cmd := &cobra.Command{
		Use: "rotate-key", Short: "Give a Server's database a new master key, or with --data new keys for everything sealed", Args: exactly(),
		Long: "Make a new master key, which lies in a file, and wrap the data keys with it, which lie in the database and seal its\n" +
			"Secrets, sensitive Inputs and outputs. Use the same settings file or flags as the Server.\n\n" +
			"With --data the master key stays, and there is a new data key instead: all values are sealed anew with it, in small steps. Where both\n" +
			"shall be new: rotate-key, copy the file of the master key to the hosts of other Servers, rotate-key --data.\n\n" +
			"With SQLite stop the Server first. With PostgreSQL Servers may go on: they keep the data keys that they know, and take a new one\n" +
			"up by themselves. Run it again to finish an interrupted rotation; where Servers went on during --data, run it again a minute\n" +
			"later with --data for what they sealed with the old key meanwhile.",
	}
	options := settingFlags(cmd, []settingFlag{
		{"data-folder", "data", "folder of the Server's data (default ./data)"},
		{"database", "database", "postgres:// URL; without it SQLite in the data folder"},
		{"master-key-file", "master_key_file", "file of the master key (default master-key in the data folder)"},
	})
	cmd.Flags().BoolVar(&data, "data", false, "make a new data key instead, and seal all values anew with it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := options()
		if err != nil {
			return err
		}
		return a.programs.RotateKey(cmd.Context(), o, data, a.Out)
	}
	return cmd
}

func (a *app) adminToken() *cobra.Command {
	cmd := &cobra.Command{
		Use: "admin-token", Short: "Replace the admin token of a Server that was lost", Args: exactly(),
		Long: "Make a new token of the admin and write it to the file admin-token in the data folder. The old one ends.\n" +
			"Use the same settings file or flags as the server. With SQLite, stop the server first.",
	}
	options := settingFlags(cmd, []settingFlag{
		{"data", "data", "folder of the Server's data (default ./data)"},
		{"database", "database", "postgres:// URL; without it SQLite in the data folder"},
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := options()
		if err != nil {
			return err
		}
		return a.programs.AdminToken(cmd.Context(), o, a.Out)
	}
	return cmd
}
