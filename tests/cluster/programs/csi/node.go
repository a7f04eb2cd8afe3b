package main

import (
	"context"
	"os"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node, MaxVolumesPerNode: 128}, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	r := &csi.NodeGetCapabilitiesResponse{}
	for _, t := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	} {
		rpc := &csi.NodeServiceCapability_RPC{Type: t}
		r.Capabilities = append(r.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: rpc},
		})
	}
	return r, nil
}

func (d *driver) NodeGetVolumeStats(_ context.Context, q *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(q.VolumePath, &st); err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{
			Unit:      csi.VolumeUsage_BYTES,
			Total:     int64(st.Blocks) * st.Bsize,
			Available: int64(st.Bavail) * st.Bsize,
			Used:      int64(st.Blocks-st.Bfree) * st.Bsize,
		},
		{
			Unit:      csi.VolumeUsage_INODES,
			Total:     int64(st.Files),
			Available: int64(st.Ffree),
			Used:      int64(st.Files - st.Ffree),
		},
	}}, nil
}

func (d *driver) NodeStageVolume(_ context.Context, q *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.load(); err != nil {
		return nil, internal(err)
	}
	v, ok := d.Vols[q.VolumeId]
	if !ok {
		return nil, status.Errorf(codes.NotFound, "volume %s not found", q.VolumeId)
	}
	if v.Node != d.node {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %q, not to this node", v.ID, v.Node)
	}
	if device(q.StagingTargetPath) == "" {
		if err := d.stage(v.ID, q.StagingTargetPath, q.GetVolumeCapability()); err != nil {
			return nil, internal(err)
		}
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// stage mounts a volume, its file system as large as its image.
func (d *driver) stage(id, path string, capability *csi.VolumeCapability) error {
	if err := os.MkdirAll(path, 0o750); err != nil {
		return err
	}
	if err := grow(d.img(id)); err != nil {
		return err
	}
	flags := append([]string{"loop", "noatime"}, capability.GetMount().GetMountFlags()...)
	_, err := run("mount", "-n", "-t", "ext4", "-o", strings.Join(flags, ","), d.img(id), path)
	return err
}

func (d *driver) NodeUnstageVolume(_ context.Context, q *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := unmount(q.StagingTargetPath); err != nil {
		return nil, internal(err)
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

func (d *driver) NodePublishVolume(_ context.Context, q *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if device(q.StagingTargetPath) == "" {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not staged", q.VolumeId)
	}
	if device(q.TargetPath) != "" {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := os.MkdirAll(q.TargetPath, 0o750); err != nil {
		return nil, internal(err)
	}
	if err := unix.Mount(q.StagingTargetPath, q.TargetPath, "", unix.MS_BIND, ""); err != nil {
		return nil, internal(err)
	}
	if q.Readonly {
		if err := unix.Mount("", q.TargetPath, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return nil, internal(err)
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (d *driver) NodeUnpublishVolume(_ context.Context, q *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := unmount(q.TargetPath); err != nil {
		return nil, internal(err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (d *driver) NodeExpandVolume(_ context.Context, q *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	dev := device(q.VolumePath)
	if dev == "" {
		return nil, status.Errorf(codes.NotFound, "volume %s is not mounted at %s", q.VolumeId, q.VolumePath)
	}
	if _, err := run("losetup", "-c", dev); err != nil {
		return nil, internal(err)
	}
	if out, err := run("resize2fs", dev); err != nil {
		if strings.Contains(out, "Permission denied") { // without CAP_SYS_RESOURCE: done when staged next
			return nil, status.Error(codes.FailedPrecondition,
				"cannot grow a mounted file system on this machine: delete the pod")
		}
		return nil, internal(err)
	}
	return &csi.NodeExpandVolumeResponse{}, nil
}
