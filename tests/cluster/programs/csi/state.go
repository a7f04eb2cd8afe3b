package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	reg "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// vol is a disk; its image is at driver.img.
type vol struct {
	ID   string
	Size int64
	Node string // attached to
}

// snap is a copy of a disk; its image is at driver.snapImg.
type snap struct {
	ID, Source string
	Size       int64
	Created    time.Time
}

// state is kept in state.json, which the controller writes and the nodes read.
type state struct {
	Vols  map[string]*vol
	Snaps map[string]*snap
}

// driver is the controller, or the part on one node.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer
	reg.UnimplementedRegistrationServer
	mu                   sync.Mutex
	name, node, dir, end string
	state
}

// save writes state.json in one step.
func (d *driver) save() error {
	b, err := json.MarshalIndent(d.state, "", " ")
	if err != nil {
		return err
	}
	tmp := filepath.Join(d.dir, "state.json.tmp")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(d.dir, "state.json"))
}

// load reads state.json; there is none before the first volume.
func (d *driver) load() error {
	d.state = state{Vols: map[string]*vol{}, Snaps: map[string]*snap{}}
	b, err := os.ReadFile(filepath.Join(d.dir, "state.json"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(b, &d.state)
}
