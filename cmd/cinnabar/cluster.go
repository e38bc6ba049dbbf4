package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cinnabar-hub/cinnabar/cmd/internal/app"
	"github.com/cinnabar-hub/cinnabar/spec/client"
)

const (
	adminDefault = "http://127.0.0.1:3001"
	adminTimeout = 15 * time.Second // a node waits a few seconds for others at most
	adminAnswer  = 8 << 20          // bytes read of an answer
)

func newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "See the nodes that share a log and who is subscribed, take a node out of service, end streams",
		Long: `The commands ask the admin listener of any node (--admin-listen of serve); it asks the others. A hub that is
alone is a cluster of one node.`,
		RunE: needsCommand,
	}
	var admin string
	cmd.PersistentFlags().StringVar(&admin, "admin", "", "`URL` of a node's admin listener, or unix:PATH [CINNABAR_ADMIN] (default "+adminDefault+")")
	cmd.AddCommand(newClusterStatus(&admin),
		newClusterOrder(&admin, "drain", "leaves service",
			"Take a node out of service: it is not ready, refuses new streams and ends those it has",
			"The node goes on taking publications, and runs until it is stopped. Its clients go to the other nodes.\n"+
				"The command returns when the drain has begun; `cinnabar cluster status` shows the connections left."),
		newClusterOrder(&admin, "undrain", "is in service", "Take a drained node into service again",
			"A drain that is under way ends no more streams. A node that is shutting down refuses."),
		newClusterSubscriptions(&admin), newClusterDisconnect(&admin))
	return cmd
}

func newClusterStatus(admin *string) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print the nodes, the stream that holds the log, and its replicas",
		RunE: func(cmd *cobra.Command, _ []string) error {
			body, err := askAdmin(cmd.Context(), *admin, http.MethodGet, "cluster", nil)
			if err != nil {
				return err
			}
			var state app.ClusterState
			if err := json.Unmarshal(body, &state); err != nil {
				return fmt.Errorf("what answered is no admin listener: %w", err)
			}
			if raw {
				_, err = cmd.OutOrStdout().Write(append(bytes.TrimSpace(body), '\n'))
				return err
			}
			return writeCluster(cmd.OutOrStdout(), &state)
		},
	}
	cmd.Flags().BoolVar(&raw, "json", false, "print what the node answered")
	return cmd
}

// newClusterOrder makes the command that has a node do verb; done is what the node then does.
func newClusterOrder(admin *string, verb, done, short, long string) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NODE",
		Short: short,
		Long:  short + ".\n\n" + long,
		Args:  oneArg("which node? `cinnabar cluster status` names them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := askAdmin(cmd.Context(), *admin, http.MethodPost, "cluster/nodes/"+url.PathEscape(args[0])+"/"+verb, nil); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", args[0], done)
			return err
		},
	}
}

// askAdmin sends a request to an admin listener, with a body of JSON unless that is nil, and returns the body of an
// answer that is well.
func askAdmin(ctx context.Context, base, method, path string, order []byte) ([]byte, error) {
	if base == "" {
		base = os.Getenv("CINNABAR_ADMIN")
	}
	if base == "" {
		base = adminDefault
	}
	base, through, err := app.AdminClient(base)
	if err != nil {
		return nil, &usageError{err}
	}
	ctx, stop := interruptible(ctx, adminTimeout)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, base+"/"+path, bytes.NewReader(order)) //nolint:gosec // the operator says which
	if err != nil {
		return nil, err
	}
	if order != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := through.Do(req) //nolint:gosec // the operator says which
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, adminAnswer))
	if resp.StatusCode >= http.StatusBadRequest {
		return nil, &client.Error{Status: resp.StatusCode, Detail: printable(string(body))}
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return body, nil
}
