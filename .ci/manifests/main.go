// Manifests reads what docker/ ships, so that it can be checked and run where there is no container engine.
//
//	manifests compose FILE DIR       lays FILE's services out in DIR, a folder each, for .ci/compose.sh
//	manifests settings BINARY FILE…  asks `BINARY config` whether it takes the settings of every hub in the FILEs
//	manifests kubernetes FILE…       decodes the objects strictly and looks whether they fit together
//
// A FILE whose objects have kinds is of Kubernetes, any other one a Compose file.
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: manifests compose|settings|kubernetes …")
	}
	switch args[0] {
	case "compose":
		return layOut(ctx, args[1], args[2])
	case "settings":
		return settings(ctx, args[1], args[2:])
	case "kubernetes":
		c, err := readCluster(args[1:])
		if err != nil {
			return err
		}
		return c.check()
	default:
		return fmt.Errorf("unknown command %q", args[0])
	}
}
