import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Prints messages as Kafka's own generated classes encode them: name, version, hex. Output: kafka_messages.txt. */
public class KafkaMessages {
    static final Uuid ID = new Uuid(0x1122334455667788L, 0x99aabbccddeeff00L);

    static void print(String name, int version, Message message) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, (short) version));
        message.write(new ByteBufferAccessor(buffer), cache, (short) version);
        System.out.println(name + " " + version + " " + HexFormat.of().formatHex(buffer.array()));
    }

    public static void main(String[] args) {
        for (int version = 9; version <= 12; version++) {
            MetadataRequestData request = new MetadataRequestData().setAllowAutoTopicCreation(false);
            print("metadata-all", version, new MetadataRequestData().setAllowAutoTopicCreation(false).setTopics(null));
            request.setTopics(List.of(
                new MetadataRequestData.MetadataRequestTopic().setName("orders"),
                new MetadataRequestData.MetadataRequestTopic().setName("größe")));
            print("metadata", version, request);
            MetadataResponseData answer = new MetadataResponseData().setThrottleTimeMs(1).setClusterId("c").setControllerId(1);
            answer.brokers().add(new MetadataResponseData.MetadataResponseBroker().setNodeId(1).setHost("h").setPort(9).setRack("r"));
            answer.brokers().add(new MetadataResponseData.MetadataResponseBroker().setNodeId(2).setHost("i").setPort(9));
            MetadataResponseData.MetadataResponseTopic topic = new MetadataResponseData.MetadataResponseTopic().setName("orders");
            if (version >= 10) topic.setTopicId(ID);
            topic.setPartitions(List.of(
                new MetadataResponseData.MetadataResponsePartition().setPartitionIndex(0).setLeaderId(1).setLeaderEpoch(5)
                    .setReplicaNodes(List.of(1, 2)).setIsrNodes(List.of(1)).setOfflineReplicas(List.of(2)),
                new MetadataResponseData.MetadataResponsePartition().setErrorCode((short) 5).setPartitionIndex(1).setLeaderId(-1)));
            answer.topics().add(topic);
            answer.topics().add(new MetadataResponseData.MetadataResponseTopic().setName("gone").setErrorCode((short) 3));
            print("metadata-answer", version, answer);
        }
        for (int version = 4; version <= 5; version++) {
            ListOffsetsRequestData request = new ListOffsetsRequestData().setReplicaId(-1).setIsolationLevel((byte) 1);
            request.setTopics(List.of(new ListOffsetsRequestData.ListOffsetsTopic().setName("orders").setPartitions(List.of(
                new ListOffsetsRequestData.ListOffsetsPartition().setPartitionIndex(0).setTimestamp(-1),
                new ListOffsetsRequestData.ListOffsetsPartition().setPartitionIndex(3).setTimestamp(1700000000000L)))));
            print("list-offsets", version, request);
            print("list-offsets-answer", version, new ListOffsetsResponseData().setThrottleTimeMs(1).setTopics(List.of(
                new ListOffsetsResponseData.ListOffsetsTopicResponse().setName("orders").setPartitions(List.of(
                    new ListOffsetsResponseData.ListOffsetsPartitionResponse().setPartitionIndex(0).setTimestamp(7).setOffset(42).setLeaderEpoch(5),
                    new ListOffsetsResponseData.ListOffsetsPartitionResponse().setPartitionIndex(3).setErrorCode((short) 6))))));
        }
        for (int version : new int[] {11, 12, 13}) {
            FetchRequestData.FetchTopic topic = new FetchRequestData.FetchTopic().setPartitions(List.of(
                new FetchRequestData.FetchPartition().setPartition(0).setFetchOffset(77).setPartitionMaxBytes(4096),
                new FetchRequestData.FetchPartition().setPartition(2).setFetchOffset(5000000000L).setPartitionMaxBytes(9)));
            if (version >= 13) topic.setTopicId(ID); else topic.setTopic("orders");
            print("fetch", version, new FetchRequestData().setReplicaId(-1).setMaxWaitMs(0).setMinBytes(1).setMaxBytes(64 << 20)
                .setIsolationLevel((byte) 1).setSessionId(0).setSessionEpoch(-1).setTopics(List.of(topic)));
            FetchResponseData.FetchableTopicResponse found = new FetchResponseData.FetchableTopicResponse();
            if (version >= 13) found.setTopicId(ID); else found.setTopic("orders");
            found.setPartitions(List.of(
                new FetchResponseData.PartitionData().setPartitionIndex(0).setHighWatermark(100).setLastStableOffset(90).setLogStartOffset(3)
                    .setAbortedTransactions(List.of(
                        new FetchResponseData.AbortedTransaction().setProducerId(4000).setFirstOffset(80)))
                    .setRecords(org.apache.kafka.common.record.internal.MemoryRecords.readableRecords(ByteBuffer.wrap(new byte[] {1, 2, 3}))),
                new FetchResponseData.PartitionData().setPartitionIndex(2).setErrorCode((short) 1).setHighWatermark(-1)
                    .setAbortedTransactions(null).setRecords(null)));
            print("fetch-answer", version, new FetchResponseData().setThrottleTimeMs(1).setResponses(List.of(found)));
        }
        for (int version = 12; version <= 13; version++) {
            FetchRequestData.FetchTopic topic = new FetchRequestData.FetchTopic().setPartitions(List.of(
                new FetchRequestData.FetchPartition().setPartition(0).setFetchOffset(77).setLastFetchedEpoch(5).setPartitionMaxBytes(4096)));
            if (version >= 13) topic.setTopicId(ID); else topic.setTopic("orders");
            print("fetch-after-epoch", version, new FetchRequestData().setReplicaId(-1).setMaxWaitMs(0).setMinBytes(1).setMaxBytes(64 << 20)
                .setIsolationLevel((byte) 0).setSessionId(0).setSessionEpoch(-1).setTopics(List.of(topic)));
            FetchResponseData.FetchableTopicResponse found = new FetchResponseData.FetchableTopicResponse();
            if (version >= 13) found.setTopicId(ID); else found.setTopic("orders");
            found.setPartitions(List.of(
                new FetchResponseData.PartitionData().setPartitionIndex(0).setHighWatermark(100).setLastStableOffset(90).setLogStartOffset(3)
                    .setDivergingEpoch(new FetchResponseData.EpochEndOffset().setEpoch(4).setEndOffset(60))
                    .setAbortedTransactions(null).setRecords(null)));
            print("fetch-after-epoch-answer", version, new FetchResponseData().setThrottleTimeMs(1).setResponses(List.of(found)));
        }
        print("describe-configs", 2, new DescribeConfigsRequestData().setResources(List.of(
            new DescribeConfigsRequestData.DescribeConfigsResource().setResourceType((byte) 2).setResourceName("größe").setConfigurationKeys(null))));
        print("describe-configs-answer", 2, new DescribeConfigsResponseData().setThrottleTimeMs(1).setResults(List.of(
            new DescribeConfigsResponseData.DescribeConfigsResult().setResourceType((byte) 2).setResourceName("größe").setErrorMessage(null).setConfigs(List.of(
                new DescribeConfigsResponseData.DescribeConfigsResourceResult().setName("retention.ms").setValue("7").setConfigSource((byte) 1).setSynonyms(List.of(
                    new DescribeConfigsResponseData.DescribeConfigsSynonym().setName("log.retention.ms").setValue(null).setSource((byte) 4))),
                new DescribeConfigsResponseData.DescribeConfigsResourceResult().setName("secret").setValue(null).setConfigSource((byte) 9).setReadOnly(true).setIsSensitive(true))),
            new DescribeConfigsResponseData.DescribeConfigsResult().setResourceType((byte) 2).setResourceName("gone").setErrorCode((short) 3).setErrorMessage("no such"))));
        print("describe-acls", 1, new DescribeAclsRequestData().setResourceTypeFilter((byte) 2).setResourceNameFilter(null).setPatternTypeFilter((byte) 1)
            .setPrincipalFilter(null).setHostFilter(null).setOperation((byte) 1).setPermissionType((byte) 1));
        print("describe-acls-answer", 1, new DescribeAclsResponseData().setThrottleTimeMs(1).setErrorMessage(null).setResources(List.of(
            new DescribeAclsResponseData.DescribeAclsResource().setResourceType((byte) 2).setResourceName("größe").setPatternType((byte) 4).setAcls(List.of(
                new DescribeAclsResponseData.AclDescription().setPrincipal("User:a").setHost("*").setOperation((byte) 3).setPermissionType((byte) 3),
                new DescribeAclsResponseData.AclDescription().setPrincipal("User:b").setHost("h").setOperation((byte) 99).setPermissionType((byte) 2))))));
        print("delete-acls", 1, new DeleteAclsRequestData().setFilters(List.of(
            new DeleteAclsRequestData.DeleteAclsFilter().setResourceTypeFilter((byte) 2).setResourceNameFilter("größe").setPatternTypeFilter((byte) 4)
                .setPrincipalFilter("User:a").setHostFilter("*").setOperation((byte) 3).setPermissionType((byte) 3))));
        print("delete-acls-answer", 1, new DeleteAclsResponseData().setThrottleTimeMs(1).setFilterResults(List.of(
            new DeleteAclsResponseData.DeleteAclsFilterResult().setErrorMessage(null).setMatchingAcls(List.of(
                new DeleteAclsResponseData.DeleteAclsMatchingAcl().setErrorCode((short) 31).setErrorMessage("no").setResourceType((byte) 2).setResourceName("größe")
                    .setPatternType((byte) 4).setPrincipal("User:a").setHost("*").setOperation((byte) 3).setPermissionType((byte) 3))),
            new DeleteAclsResponseData.DeleteAclsFilterResult().setErrorMessage(null))));
        for (int version = 4; version <= 5; version++) {
            print("list-groups", version, new ListGroupsRequestData());
            ListGroupsResponseData.ListedGroup one = new ListGroupsResponseData.ListedGroup().setGroupId("g").setProtocolType("consumer").setGroupState("PreparingRebalance");
            ListGroupsResponseData.ListedGroup two = new ListGroupsResponseData.ListedGroup().setGroupId("größe").setProtocolType("").setGroupState("Empty");
            if (version >= 5) { one.setGroupType("Classic"); two.setGroupType("Share"); }
            print("list-groups-answer", version, new ListGroupsResponseData().setThrottleTimeMs(1).setErrorCode((short) 0).setGroups(List.of(one, two)));
        }
        print("describe-groups", 5, new DescribeGroupsRequestData().setGroups(List.of("g", "größe")));
        print("describe-groups-answer", 5, new DescribeGroupsResponseData().setThrottleTimeMs(1).setGroups(List.of(
            new DescribeGroupsResponseData.DescribedGroup().setGroupId("g").setGroupState("CompletingRebalance").setProtocolType("consumer").setProtocolData("range")
                .setMembers(List.of(
                    new DescribeGroupsResponseData.DescribedGroupMember().setMemberId("m").setClientId("c").setClientHost("h").setMemberMetadata(new byte[] {1, 2}).setMemberAssignment(new byte[] {3}),
                    new DescribeGroupsResponseData.DescribedGroupMember().setMemberId("n").setGroupInstanceId("static").setClientId("c").setClientHost("h"))),
            new DescribeGroupsResponseData.DescribedGroup().setGroupId("größe").setErrorCode((short) 16),
            new DescribeGroupsResponseData.DescribedGroup().setGroupId("none").setGroupState("Dead"))));
        print("find-coordinators", 4, new FindCoordinatorRequestData().setKeyType((byte) 0).setCoordinatorKeys(List.of("g", "größe")));
        print("find-coordinators-answer", 4, new FindCoordinatorResponseData().setThrottleTimeMs(1).setCoordinators(List.of(
            new FindCoordinatorResponseData.Coordinator().setKey("g").setNodeId(3).setHost("h").setPort(9),
            new FindCoordinatorResponseData.Coordinator().setKey("größe").setNodeId(-1).setErrorCode((short) 15).setErrorMessage("away"))));
        print("fetch-offsets", 8, new OffsetFetchRequestData().setRequireStable(false).setGroups(List.of(
            new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId("g").setTopics(null),
            new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId("größe").setTopics(null))));
        print("fetch-offsets-answer", 8, new OffsetFetchResponseData().setThrottleTimeMs(1).setGroups(List.of(
            new OffsetFetchResponseData.OffsetFetchResponseGroup().setGroupId("g").setTopics(List.of(
                new OffsetFetchResponseData.OffsetFetchResponseTopics().setName("orders").setPartitions(List.of(
                    new OffsetFetchResponseData.OffsetFetchResponsePartitions().setPartitionIndex(0).setCommittedOffset(42).setCommittedLeaderEpoch(5).setMetadata("möchte"),
                    new OffsetFetchResponseData.OffsetFetchResponsePartitions().setPartitionIndex(1).setCommittedOffset(-1),
                    new OffsetFetchResponseData.OffsetFetchResponsePartitions().setPartitionIndex(2).setCommittedOffset(7).setErrorCode((short) 29),
                    new OffsetFetchResponseData.OffsetFetchResponsePartitions().setPartitionIndex(3).setCommittedOffset(0).setMetadata(null))))),
            new OffsetFetchResponseData.OffsetFetchResponseGroup().setGroupId("größe").setErrorCode((short) 30))));
        for (int version = 6; version <= 7; version++) {
            print("commit-offsets", version, new OffsetCommitRequestData().setGroupId("g").setGenerationIdOrMemberEpoch(-1).setMemberId("").setTopics(List.of(
                new OffsetCommitRequestData.OffsetCommitRequestTopic().setName("orders").setPartitions(List.of(
                    new OffsetCommitRequestData.OffsetCommitRequestPartition().setPartitionIndex(0).setCommittedOffset(42).setCommittedLeaderEpoch(5).setCommittedMetadata("möchte"),
                    new OffsetCommitRequestData.OffsetCommitRequestPartition().setPartitionIndex(1).setCommittedOffset(7).setCommittedLeaderEpoch(-1).setCommittedMetadata(""))))));
            print("commit-offsets-answer", version, new OffsetCommitResponseData().setThrottleTimeMs(1).setTopics(List.of(
                new OffsetCommitResponseData.OffsetCommitResponseTopic().setName("orders").setPartitions(List.of(
                    new OffsetCommitResponseData.OffsetCommitResponsePartition().setPartitionIndex(0),
                    new OffsetCommitResponseData.OffsetCommitResponsePartition().setPartitionIndex(1).setErrorCode((short) 25))))));
        }
        printSessions();
        printProducers();
        printConnections();
        RequestHeaderData header = new RequestHeaderData().setRequestApiKey((short) 3).setRequestApiVersion((short) 12).setCorrelationId(99).setClientId("bridge");
        print("header", 1, header);
        print("header", 2, header);
        print("answer-header", 0, new ResponseHeaderData().setCorrelationId(99));
        print("answer-header", 1, new ResponseHeaderData().setCorrelationId(99));
    }

    static void printSessions() {
        for (int version : new int[] {11, 12, 13}) {
            FetchRequestData.FetchTopic topic = new FetchRequestData.FetchTopic().setPartitions(List.of(
                new FetchRequestData.FetchPartition().setPartition(0).setFetchOffset(77).setLastFetchedEpoch(version >= 12 ? 5 : -1).setPartitionMaxBytes(4096)));
            FetchRequestData.ForgottenTopic forgotten = new FetchRequestData.ForgottenTopic().setPartitions(List.of(2, 3));
            if (version >= 13) topic.setTopicId(ID); else topic.setTopic("orders");
            if (version >= 13) forgotten.setTopicId(ID); else forgotten.setTopic("orders");
            print("fetch-in-session", version, new FetchRequestData().setReplicaId(-1).setMaxWaitMs(500).setMinBytes(1).setMaxBytes(1 << 20)
                .setIsolationLevel((byte) 1).setSessionId(1234567).setSessionEpoch(3).setTopics(List.of(topic)).setForgottenTopicsData(List.of(forgotten)));
            print("fetch-in-session-answer", version, new FetchResponseData().setThrottleTimeMs(1).setErrorCode((short) 71).setSessionId(1234567));
        }
        print("epoch-ends", 3, new OffsetForLeaderEpochRequestData().setReplicaId(-1).setTopics(
            new OffsetForLeaderEpochRequestData.OffsetForLeaderTopicCollection(List.of(
                new OffsetForLeaderEpochRequestData.OffsetForLeaderTopic().setTopic("orders").setPartitions(List.of(
                    new OffsetForLeaderEpochRequestData.OffsetForLeaderPartition().setPartition(0).setCurrentLeaderEpoch(-1).setLeaderEpoch(7)))).iterator())));
        print("epoch-ends-answer", 3, new OffsetForLeaderEpochResponseData().setThrottleTimeMs(1).setTopics(
            new OffsetForLeaderEpochResponseData.OffsetForLeaderTopicResultCollection(List.of(
                new OffsetForLeaderEpochResponseData.OffsetForLeaderTopicResult().setTopic("orders").setPartitions(List.of(
                    new OffsetForLeaderEpochResponseData.EpochEndOffset().setPartition(0).setErrorCode((short) 6).setLeaderEpoch(5).setEndOffset(42)))).iterator())));
    }

    static void printConnections() {
        print("api-versions", 0, new ApiVersionsRequestData());
        print("api-versions-answer", 0, new ApiVersionsResponseData().setErrorCode((short) 35).setApiKeys(
            new ApiVersionsResponseData.ApiVersionCollection(List.of(
                new ApiVersionsResponseData.ApiVersion().setApiKey((short) 3).setMinVersion((short) 0).setMaxVersion((short) 12),
                new ApiVersionsResponseData.ApiVersion().setApiKey((short) 60).setMinVersion((short) 0).setMaxVersion((short) 1)).iterator())));
        print("sasl-handshake", 1, new SaslHandshakeRequestData().setMechanism("SCRAM-SHA-256"));
        print("sasl-handshake-answer", 1, new SaslHandshakeResponseData().setErrorCode((short) 33).setMechanisms(List.of("PLAIN", "größe")));
        for (int version = 0; version <= 2; version++) {
            print("sasl-authenticate", version, new SaslAuthenticateRequestData().setAuthBytes(new byte[] {1, 2, 3}));
            print("sasl-authenticate-answer", version, new SaslAuthenticateResponseData().setErrorCode((short) 58).setErrorMessage("möchte nicht")
                .setAuthBytes(new byte[] {4, 5}).setSessionLifetimeMs(version >= 1 ? 3600000L : 0L));
        }
        DescribeClusterResponseData cluster = new DescribeClusterResponseData().setThrottleTimeMs(1).setErrorMessage(null)
            .setClusterId("c").setControllerId(1).setClusterAuthorizedOperations(1 << 8 | 1 << 12);
        cluster.brokers().add(new DescribeClusterResponseData.DescribeClusterBroker().setBrokerId(1).setHost("h").setPort(9).setRack("r"));
        cluster.brokers().add(new DescribeClusterResponseData.DescribeClusterBroker().setBrokerId(2).setHost("größe").setPort(9));
        print("describe-cluster", 0, new DescribeClusterRequestData().setIncludeClusterAuthorizedOperations(true));
        print("describe-cluster-answer", 0, cluster);
        for (int version = 9; version <= 10; version++) {
            print("describe-topics", version, new MetadataRequestData().setAllowAutoTopicCreation(false).setIncludeTopicAuthorizedOperations(true)
                .setTopics(List.of(new MetadataRequestData.MetadataRequestTopic().setName("orders"))));
            MetadataResponseData answer = new MetadataResponseData().setThrottleTimeMs(1).setClusterId("c").setControllerId(2);
            answer.brokers().add(new MetadataResponseData.MetadataResponseBroker().setNodeId(2).setHost("h").setPort(9));
            answer.topics().add(new MetadataResponseData.MetadataResponseTopic().setName("orders").setTopicAuthorizedOperations(1 << 3 | 1 << 8).setPartitions(List.of(
                new MetadataResponseData.MetadataResponsePartition().setPartitionIndex(0).setLeaderId(2).setReplicaNodes(List.of(2)).setIsrNodes(List.of(2)))));
            answer.topics().add(new MetadataResponseData.MetadataResponseTopic().setName("größe").setErrorCode((short) 29));
            print("describe-topics-answer", version, answer);
        }
    }

    static void printProducers() {
        for (int version = 1; version <= 2; version++) {
            print("find-transaction-coordinator", version, new FindCoordinatorRequestData().setKey("tx-ö").setKeyType((byte) 1));
            print("find-transaction-coordinator-answer", version, new FindCoordinatorResponseData()
                .setThrottleTimeMs(1).setErrorCode((short) 15).setErrorMessage("away").setNodeId(3).setHost("h").setPort(9));
        }
        for (int version = 3; version <= 4; version++) {
            print("init-producer-id", version, new InitProducerIdRequestData()
                .setTransactionalId("tx-ö").setTransactionTimeoutMs(15000).setProducerId(4000).setProducerEpoch((short) 7));
            print("init-producer-id-answer", version, new InitProducerIdResponseData()
                .setThrottleTimeMs(1).setErrorCode((short) 51).setProducerId(4001).setProducerEpoch((short) 8));
        }
        for (int version = 2; version <= 3; version++) {
            print("add-partitions", version, new AddPartitionsToTxnRequestData().setV3AndBelowTransactionalId("tx-ö")
                .setV3AndBelowProducerId(4000).setV3AndBelowProducerEpoch((short) 7).setV3AndBelowTopics(
                    new AddPartitionsToTxnRequestData.AddPartitionsToTxnTopicCollection(List.of(
                        new AddPartitionsToTxnRequestData.AddPartitionsToTxnTopic().setName("orders").setPartitions(List.of(0, 2))).iterator())));
            print("add-partitions-answer", version, new AddPartitionsToTxnResponseData().setThrottleTimeMs(1).setResultsByTopicV3AndBelow(
                new AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResultCollection(List.of(
                    new AddPartitionsToTxnResponseData.AddPartitionsToTxnTopicResult().setName("orders").setResultsByPartition(
                        new AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResultCollection(List.of(
                            new AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResult().setPartitionIndex(0).setPartitionErrorCode((short) 55),
                            new AddPartitionsToTxnResponseData.AddPartitionsToTxnPartitionResult().setPartitionIndex(2).setPartitionErrorCode((short) 29)).iterator()))).iterator())));
            print("end-transaction", version, new EndTxnRequestData().setTransactionalId("tx-ö").setProducerId(4000).setProducerEpoch((short) 7).setCommitted(true));
            print("end-transaction-answer", version, new EndTxnResponseData().setThrottleTimeMs(1).setErrorCode((short) 90));
        }
        print("produce", 8, new ProduceRequestData().setTransactionalId("tx-ö").setAcks((short) -1).setTimeoutMs(15000).setTopicData(
            new ProduceRequestData.TopicProduceDataCollection(List.of(
                new ProduceRequestData.TopicProduceData().setName("orders").setPartitionData(List.of(
                    new ProduceRequestData.PartitionProduceData().setIndex(0).setRecords(
                        org.apache.kafka.common.record.internal.MemoryRecords.readableRecords(ByteBuffer.wrap(new byte[] {1, 2, 3}))),
                    new ProduceRequestData.PartitionProduceData().setIndex(2).setRecords(
                        org.apache.kafka.common.record.internal.MemoryRecords.readableRecords(ByteBuffer.wrap(new byte[] {4})))))).iterator())));
        print("produce-answer", 8, new ProduceResponseData().setThrottleTimeMs(1).setResponses(
            new ProduceResponseData.TopicProduceResponseCollection(List.of(
                new ProduceResponseData.TopicProduceResponse().setName("orders").setPartitionResponses(List.of(
                    new ProduceResponseData.PartitionProduceResponse().setIndex(0).setBaseOffset(42).setLogStartOffset(3),
                    new ProduceResponseData.PartitionProduceResponse().setIndex(2).setErrorCode((short) 87).setBaseOffset(-1)
                        .setErrorMessage("spoilt").setRecordErrors(List.of(
                            new ProduceResponseData.BatchIndexAndErrorMessage().setBatchIndex(5).setBatchIndexErrorMessage("no key")))))).iterator())));
    }
}
