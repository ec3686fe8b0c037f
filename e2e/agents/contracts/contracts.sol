// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

// Contracts that the tests of identities deploy on a local chain. They are for tests alone. The registries have the interface of ERC-8004's that the
// gateway reads, and what the tests need to change them.

interface IERC1271 {
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4);
}

// IdentityRegistry gives agents to their owners. As in the reference registry, the first agent's id is 0, the wallet of an agent that was transferred is
// cleared, and questions about an agent that there is not revert.
contract IdentityRegistry {
    mapping(uint256 => address) private owners;
    mapping(uint256 => address) private wallets;
    uint256 private next;

    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);
    event MetadataSet(uint256 indexed agentId, string indexed indexedMetadataKey, string metadataKey, bytes metadataValue);

    error ERC721NonexistentToken(uint256 tokenId);

    function register() external returns (uint256 agentId) {
        agentId = next++;
        owners[agentId] = msg.sender;
        wallets[agentId] = msg.sender;
        emit Transfer(address(0), msg.sender, agentId);
    }

    function ownerOf(uint256 agentId) public view returns (address owner) {
        owner = owners[agentId];
        if (owner == address(0)) revert ERC721NonexistentToken(agentId);
    }

    function getAgentWallet(uint256 agentId) external view returns (address) {
        return wallets[agentId];
    }

    // setWallet stands for setAgentWallet of the reference, which wants a signature of the new wallet.
    function setWallet(uint256 agentId, address wallet) external {
        require(ownerOf(agentId) == msg.sender, "not the owner");
        wallets[agentId] = wallet;
        emit MetadataSet(agentId, "agentWallet", "agentWallet", abi.encodePacked(wallet));
    }

    function transferFrom(address from, address to, uint256 agentId) external {
        require(ownerOf(agentId) == msg.sender && from == msg.sender && to != address(0), "not the owner");
        owners[agentId] = to;
        delete wallets[agentId];
        emit Transfer(from, to, agentId);
    }

    function burn(uint256 agentId) external {
        require(ownerOf(agentId) == msg.sender, "not the owner");
        delete owners[agentId];
        delete wallets[agentId];
        emit Transfer(msg.sender, address(0), agentId);
    }
}

// ReputationRegistry has the feedback that clients give to agents. As in the reference registry, nobody gives feedback to an agent of its own, a summary
// without clients is refused, and it averages the values of one scale.
contract ReputationRegistry {
    struct Feedback {
        int128 value;
        uint8 decimals;
        bool revoked;
        string tag1;
        string tag2;
    }

    IdentityRegistry private immutable identities;
    mapping(uint256 => mapping(address => Feedback[])) private given;

    constructor(IdentityRegistry registry) {
        identities = registry;
    }

    function getIdentityRegistry() external view returns (address) {
        return address(identities);
    }

    function giveFeedback(uint256 agentId, int128 value, uint8 decimals, string calldata tag1, string calldata tag2, string calldata, string calldata, bytes32) external {
        require(identities.ownerOf(agentId) != msg.sender, "Self-feedback not allowed");
        require(decimals <= 18, "too many decimals");
        given[agentId][msg.sender].push(Feedback(value, decimals, false, tag1, tag2));
    }

    function revokeFeedback(uint256 agentId, uint64 index) external {
        given[agentId][msg.sender][index - 1].revoked = true;
    }

    function getSummary(uint256 agentId, address[] calldata clients, string calldata tag1, string calldata tag2)
        external view returns (uint64 count, int128 summaryValue, uint8 summaryValueDecimals)
    {
        require(clients.length > 0, "clientAddresses required");
        int256 sum;
        for (uint256 c = 0; c < clients.length; c++) {
            Feedback[] storage list = given[agentId][clients[c]];
            for (uint256 i = 0; i < list.length; i++) {
                if (list[i].revoked || !matches(list[i].tag1, tag1) || !matches(list[i].tag2, tag2)) continue;
                sum += int256(list[i].value) * int256(10 ** (18 - uint256(list[i].decimals)));
                count++;
            }
        }
        if (count == 0) return (0, 0, 0);
        summaryValueDecimals = 18;
        summaryValue = int128(sum / int256(uint256(count)));
    }

    function matches(string storage has, string calldata want) private view returns (bool) {
        return bytes(want).length == 0 || keccak256(bytes(has)) == keccak256(bytes(want));
    }
}

// SmartWallet is a contract wallet whose owner signs for it, and which can own agents.
contract SmartWallet {
    address public owner;

    constructor(address first) {
        owner = first;
    }

    function rotate(address next) external {
        owner = next;
    }

    function run(address to, bytes calldata data) external returns (bytes memory) {
        (bool ok, bytes memory out) = to.call(data);
        require(ok, "the call failed");
        return out;
    }

    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        if (signature.length != 65) return 0xffffffff;
        address signer = ecrecover(digest, uint8(signature[64]), bytes32(signature[0:32]), bytes32(signature[32:64]));
        return signer != address(0) && signer == owner ? IERC1271.isValidSignature.selector : bytes4(0xffffffff);
    }
}

// EvilWallet answers a question about a signature in the way of its mode: 1 says yes to everything, 2 never ends, 3 returns a lot, 4 reverts,
// 5 returns too little, 6 returns the right four bytes with others behind them. It can own agents.
contract EvilWallet {
    uint256 public mode;

    constructor(uint256 how) {
        mode = how;
    }

    function run(address to, bytes calldata data) external returns (bytes memory) {
        (bool ok, bytes memory out) = to.call(data);
        require(ok, "the call failed");
        return out;
    }

    function isValidSignature(bytes32, bytes calldata) external view returns (bytes4) {
        uint256 how = mode;
        if (how == 1) return IERC1271.isValidSignature.selector;
        if (how == 2) while (true) {}
        if (how == 3) assembly { return(0, 200000) }
        if (how == 4) revert("no");
        if (how == 5) assembly {
            mstore(0, 0x1626ba7e00000000000000000000000000000000000000000000000000000000)
            return(0, 4)
        }
        assembly {
            mstore(0, 0x1626ba7effffffffffffffffffffffffffffffffffffffffffffffffffffffff)
            return(0, 32)
        }
    }
}
